"""Output: capped with head and tail kept, counted, and never more in the way than it is allowed to be."""

from __future__ import annotations

import asyncio

from gym.broker.conformance.harness import SOON, TIMEOUTS, Harness, check, same, sh
from gym.wire.sandbox import ExecRequest


async def no_last_newline(harness: Harness) -> None:
    """output without a last newline is whole"""
    same((await sh(await harness.sandbox(), "printf abc")).stdout.data, b"abc")


async def megabyte_whole(harness: Harness) -> None:
    """output up to its bound is whole, and one byte more drops one"""
    sandbox = await harness.sandbox()
    exact = await sh(sandbox, "head -c 65536 /dev/zero | tr '\\0' x", max_output=65536)
    same((exact.stdout.data, exact.stdout.dropped), (b"x" * 65536, 0))
    over = await sh(sandbox, "head -c 65537 /dev/zero | tr '\\0' x", max_output=65536)
    same((len(over.stdout.head) + len(over.stdout.tail), over.stdout.dropped), (65536, 1))


async def head_and_tail(harness: Harness) -> None:
    """of long output the first and the last are kept, and the cut is counted to the byte"""
    result = await sh(await harness.sandbox(), "seq 1 200000", max_output=20_000)
    whole = "".join(f"{i}\n" for i in range(1, 200_001)).encode()
    found = result.stdout
    same((found.head, found.tail), (whole[:10_000], whole[-10_000:]))
    same(found.dropped, len(whole) - 20_000)
    check(b"bytes cut" in found.data, "the cut is not marked")


async def bounds_apart(harness: Harness) -> None:
    """each stream has a bound of its own"""
    result = await sh(await harness.sandbox(), "seq 1 5000; echo short >&2", max_output=1000)
    same((result.stderr.text, result.stderr.dropped), ("short\n", 0))
    check(result.stdout.dropped > 0, "nothing was cut")


async def tiny_bound(harness: Harness) -> None:
    """a bound of one byte is kept"""
    result = await sh(await harness.sandbox(), "echo abc", max_output=1)
    same((result.stdout.head + result.stdout.tail, result.stdout.dropped), (b"a", 3))


async def ten_gigabytes(harness: Harness) -> None:
    """ten gigabytes of output are counted and cut"""
    result = await sh(await harness.sandbox(), f"head -c {harness.flood} /dev/zero", max_output=1 << 20, timeout=600)
    same((result.exit_code, result.timed_out), (0, False))
    same(len(result.stdout.head) + len(result.stdout.tail) + result.stdout.dropped, harness.flood)
    check(len(result.stdout.data) < (1 << 20) + 100, "more than the bound came back")


async def endless_output(harness: Harness) -> None:
    """a command that never stops writing is ended in time, with what it wrote"""
    for timeout in TIMEOUTS:
        result = await sh(await harness.sandbox(), "yes", max_output=4096, timeout=timeout)
        check(result.timed_out, "it did not time out")
        if len(result.stdout.head) == 2048:
            break
    same(result.stdout.head, b"y\n" * 1024)


async def neighbour_of_a_flood(harness: Harness) -> None:
    """beside a command that floods its output another still answers"""
    sandbox = await harness.sandbox()
    flood = asyncio.create_task(sh(sandbox, "yes", timeout=600))
    try:
        for i in range(10):
            same((await sh(sandbox, f"echo {i}")).stdout.text, f"{i}\n")
        check(not flood.done(), "the flood ended by itself")
    finally:
        flood.cancel()
        await asyncio.gather(flood, return_exceptions=True)


async def streamed(harness: Harness) -> None:
    """streamed output arrives before the command has ended"""
    sandbox, name = await harness.sandbox(), harness.name()
    came: list[tuple[int, bytes]] = []
    first = asyncio.Event()

    def take(stream: int, data: bytes) -> None:
        came.append((stream, data))
        first.set()

    line = f"echo first; while [ ! -e {name} ]; do sleep 0.02; done; echo last >&2"
    running = asyncio.create_task(sandbox.exec(ExecRequest(shell=line, stream=True), take))
    await asyncio.wait_for(first.wait(), SOON)
    check(not running.done(), "it had ended")
    await sandbox.write_file(name, b"")
    same((await running).exit_code, 0)
    same(came, [(1, b"first\n"), (2, b"last\n")])


async def streamed_and_bounded(harness: Harness) -> None:
    """streamed output is bounded too, and the result has head and tail"""
    came = bytearray()
    request = ExecRequest(shell="seq 1 200000", max_output=20_000, stream=True)
    result = await (await harness.sandbox()).exec(request, lambda stream, data: came.extend(data))
    check(len(came) <= 20_000, f"{len(came)} bytes came")
    check(result.stdout.data.startswith(b"1\n2\n") and result.stdout.data.endswith(b"200000\n"), "no head or no tail")
