"""What a broker weighs while a sandbox's relay is another program: `python -m tests.bench.hostile_relay`.

A real gate over bubblewrap; in the relay's place runs a program that says whatever it likes, one attack after the
other, as fast as it can. The memory of the process that holds the gate is looked at all the time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import itertools
import logging
import re
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from gym.broker.egress import gate
from gym.broker.providers.local import Bubblewrap
from gym.wire.sandbox import SandboxSpec
from tests.support.sandbox_egress import GOOD, Seen
from tests.support.sandbox_local import tags

# The host that is allowed: a process of its own, since what it holds is not the gate's.
ORIGIN = """
import asyncio
from tests.support.sandbox_egress import origin
async def main():
    async with origin(bytes(1 << 20)) as there:
        print(there.port, flush=True)
        await asyncio.sleep(3600)
asyncio.run(main())
"""
HOSTILE = r"""
import itertools, os, struct, sys, time

mode, seconds, host = sys.argv[1], float(sys.argv[2]), sys.argv[3].encode()
ends = time.monotonic() + seconds


def frame(kind, id, body=b""):
    return struct.pack("<BII", ord(kind), id, len(body)) + body


def say(data):
    view = memoryview(data)
    while view:
        if time.monotonic() > ends:
            os._exit(0)
        view = view[os.write(1, view[: 1 << 16]):]


say(frame("L", 0, b"\1\1\1\1\1"))
query = struct.pack(">HHHHHH", 7, 256, 1, 0, 0, 0) + b"\4good\7example\0" + struct.pack(">HH", 1, 1)
opened = b"".join(frame("O", id, bytes([id % 4])) for id in range(64))
proxies = b"".join(frame("O", id, b"\0") for id in range(64))
get = b"GET http://" + host + b"/ HTTP/1.1\r\nHost: " + host + b"\r\n"
if mode == "a frame without end":
    say(struct.pack("<BII", ord("D"), 1, 0xFFFFFFFF))
elif mode == "requests for more than is taken":
    say(proxies + b"".join(frame("D", id, get + b"\r\n") for id in range(64)))
elif mode == "heads that never end":
    say(proxies + b"".join(frame("D", id, get) for id in range(64)))
elif mode == "hellos that never end":
    say(b"".join(frame("O", id, b"\2") + frame("D", id, b"\x16\3\1\x3f\xff\1\0\x3f\xfb") for id in range(64)))
elif mode == "names over streams":
    say(b"".join(frame("O", id, b"\3") for id in range(64)))
for turn in itertools.count():
    if mode == "a frame without end":
        say(bytes(1 << 20))
    elif mode == "data of no connection":
        say(frame("D", 1 << 20, bytes(65536)))
    elif mode == "data beyond the window":
        say(opened + frame("D", turn % 64, bytes(65536)))
    elif mode == "connections that are opened only":
        say(b"".join(frame("O", turn * 1000 + at, bytes([at % 4])) for at in range(1000)))
    elif mode == "connections that are opened and cut":
        say(b"".join(frame("O", at, bytes([at % 4])) + frame("R", at) for at in range(1000)))
    elif mode == "datagrams":
        say(b"".join(frame("U", at, b"\4" + query) for at in range(1000)))
    elif mode == "datagrams of nothing":
        say(frame("U", turn & 0xFFFF, b"\4" + os.urandom(60000)))
    elif mode == "requests for more than is taken":
        say(b"".join(frame("T", at, struct.pack("<I", 0x7FFFFFFF)) for at in range(64)))
    elif mode == "heads that never end":
        say(b"".join(frame("D", at, b"x-%d: " % turn + b"a" * 1000 + b"\r\n") for at in range(64)))
    elif mode == "hellos that never end":
        say(b"".join(frame("D", at, bytes(250)) for at in range(64)))
    elif mode == "names over streams":
        say(b"".join(frame("D", at, struct.pack(">H", len(query)) + query) for at in range(64)))
    else:
        say(os.urandom(1 << 16))
"""
MODES = re.findall(r'mode == "([^"]+)"', HOSTILE)
MODES = [*dict.fromkeys(MODES), "noise"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="of attack, for all of them together")
    logging.disable(logging.WARNING)
    asyncio.run(measure(parser.parse_args().seconds))


async def measure(seconds: float) -> None:
    each = seconds / len(MODES)
    now: dict[str, Any] = {"mode": "noise", "starts": 0, "lines": 0}

    def count(event: str, **facts: Any) -> None:
        now["lines"] += 1

    async with serving() as port:

        def hostile(*_: Any) -> tuple[str, ...]:
            now["starts"] += 1
            return ("python3", "-c", HOSTILE, now["mode"], f"{each:g}", f"{GOOD}:{port}")

        vars(gate)["relay_argv"] = hostile
        with tempfile.TemporaryDirectory() as folder:
            own = Seen(port).gate
            own.note = count
            provider = Bubblewrap(Path(folder), gate=own)
            await provider.open()
            try:
                first = await attack(provider, now, "noise", 1.0)  # what is loaded once
                print(f"before: {first:.0f} MiB")
                worst = max([await attack(provider, now, mode, each) for mode in MODES])
            finally:
                await provider.close()
    gc.collect()
    print(
        f"at most {worst:.0f} MiB while attacked for {seconds:g} s, {memory():.0f} MiB after: +{worst - first:.0f} MiB"
    )


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[int]:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", ORIGIN, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield int(await process.stdout.readline())
    finally:
        process.kill()
        await process.wait()


async def attack(provider: Bubblewrap, now: dict[str, Any], mode: str, seconds: float) -> float:
    """The most that this process held meanwhile, in MiB."""
    now.update(mode=mode, starts=0, lines=0)
    spec = SandboxSpec.model_validate({"image": "host", "network": {"allow": [GOOD]}})
    held = await provider.create(spec, tags("hostile"))
    peak = memory()
    try:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                for _ in itertools.count():
                    await asyncio.sleep(0.02)
                    peak = max(peak, memory())
    finally:
        await held.remove()
    print(f"{mode:36} at most {peak:5.0f} MiB   {now['starts']} relays, {now['lines']} lines in the log")
    return peak


def memory() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


if __name__ == "__main__":
    main()
