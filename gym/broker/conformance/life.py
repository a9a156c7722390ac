"""The life of a sandbox: forks, its end."""

from __future__ import annotations

import asyncio

from gym.broker.conformance.harness import SOON, Lab, check, fail, out, same, sh
from gym.broker.conformance.needs import needs
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecRequest


async def two_apart(lab: Lab) -> None:
    """two sandboxes do not see each other's files"""
    one, two = await lab.fresh(), await lab.fresh()
    await one.write_file("mine", b"1")
    same(await out(two, "ls mine 2>/dev/null || echo none"), "none")


async def removed_for_good(lab: Lab) -> None:
    """a removed sandbox answers no more, and removing it again does no harm"""
    box = await lab.fresh()
    await box.remove()
    await box.remove()
    try:
        await sh(box, "echo alive")
    except RolloutError:
        return
    fail("it still answers")


async def removal_ends_waiting(lab: Lab) -> None:
    """who waits for a command while its sandbox is removed is told so"""
    box = await lab.fresh()
    job = await box.start(ExecRequest(shell="sleep 1000", timeout=600))
    waiting = asyncio.ensure_future(job.wait())
    await box.remove()
    try:
        await asyncio.wait_for(waiting, SOON)
    except RolloutError as error:
        check(error.retryable, "another attempt may help, which the failure denies")
        return
    fail("no error")


@needs("forks")
async def fork_has_files(lab: Lab) -> None:
    """a fork has the files of the moment, with modes and links, and none of the processes"""
    box = await lab.fresh()
    await box.write_file("tool", b"#!/bin/sh\necho ran\n", mode=0o755)
    await box.make_link("link", "tool")
    await sh(box, "sleep 1000 & echo $! > pid; mkdir -p d/e; echo deep > d/e/f; echo t > /tmp/conformance-fork")
    fork = lab.keep(await box.fork())
    same(await out(fork, "./link; cat d/e/f"), "ran\ndeep")
    same((await fork.stat("link")).kind, "link")
    if lab.abilities.isolates:
        same(await out(fork, "cat /tmp/conformance-fork; cat /proc/[0-9]*/comm | grep -c sleep || true"), "t\n0")
    same(await out(box, "kill -0 $(cat pid) && echo lives; rm -f /tmp/conformance-fork"), "lives")


@needs("forks")
async def fork_both_ways(lab: Lab) -> None:
    """after a fork neither sees what the other does"""
    box = await lab.fresh()
    await box.write_file("f", b"both")
    fork = lab.keep(await box.fork())
    await box.write_file("f", b"first")
    await fork.write_file("f", b"second")
    await fork.write_file("only", b"")
    same((await box.read_file("f"), await fork.read_file("f")), (b"first", b"second"))
    same(await out(box, "ls only 2>/dev/null || echo none"), "none")


@needs("forks")
async def fork_of_fork(lab: Lab) -> None:
    """a fork can be forked, and outlives what it came from"""
    box = await lab.fresh()
    await box.write_file("f", b"1")
    child = lab.keep(await box.fork())
    await child.write_file("g", b"2")
    grandchild = lab.keep(await child.fork())
    await child.remove()
    await box.remove()
    same((await grandchild.read_file("f"), await grandchild.read_file("g")), (b"1", b"2"))


@needs("forks")
async def forked_while_busy(lab: Lab) -> None:
    """a sandbox can be forked while a command writes, and the command goes on"""
    box = await lab.fresh()
    line = "i=0; while [ ! -e stop ]; do i=$((i+1)); echo $i > n; done; echo done"
    job = await box.start(ExecRequest(shell=line, timeout=600))
    fork = lab.keep(await box.fork())
    await box.write_file("stop", b"")
    same((await job.wait()).stdout.text, "done\n")
    same(await out(fork, "ls stop 2>/dev/null || echo none"), "none")
