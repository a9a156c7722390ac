"""The life of a sandbox: forks, its end."""

from __future__ import annotations

import asyncio

from gym.broker.conformance.harness import SOON, Harness, check, fail, out, same, sh
from gym.broker.conformance.requires import requires
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecRequest


async def two_apart(harness: Harness) -> None:
    """two sandboxes do not see each other's files"""
    one, two = await harness.fresh(), await harness.fresh()
    await one.write_file("mine", b"1")
    same(await out(two, "ls mine 2>/dev/null || echo none"), "none")


async def removed_for_good(harness: Harness) -> None:
    """a removed sandbox answers no more, and removing it again does no harm"""
    sandbox = await harness.fresh()
    await sandbox.remove()
    await sandbox.remove()
    try:
        await sh(sandbox, "echo alive")
    except RolloutError:
        return
    fail("it still answers")


async def removal_ends_waiting(harness: Harness) -> None:
    """a command fails with the reason when its sandbox is removed"""
    sandbox = await harness.fresh()
    job = await sandbox.start(ExecRequest(shell="sleep 1000", timeout=600))
    waiting = asyncio.ensure_future(job.wait())
    await sandbox.remove()
    try:
        await asyncio.wait_for(waiting, SOON)
    except RolloutError as error:
        check(error.retryable, "another attempt may help, which the failure denies")
        return
    fail("no error")


@requires("forks")
async def fork_has_files(harness: Harness) -> None:
    """a fork has the files of the moment, with modes and links, and none of the processes"""
    sandbox = await harness.fresh()
    await sandbox.write_file("tool", b"#!/bin/sh\necho ran\n", mode=0o755)
    await sandbox.make_link("link", "tool")
    await sh(sandbox, "sleep 1000 & echo $! > pid; mkdir -p d/e; echo deep > d/e/f; echo t > /tmp/conformance-fork")
    fork = harness.remove_later(await sandbox.fork())
    same(await out(fork, "./link; cat d/e/f"), "ran\ndeep")
    same((await fork.stat("link")).kind, "link")
    if harness.abilities.isolates:
        same(await out(fork, "cat /tmp/conformance-fork; cat /proc/[0-9]*/comm | grep -c sleep || true"), "t\n0")
    same(await out(sandbox, "kill -0 $(cat pid) && echo lives; rm -f /tmp/conformance-fork"), "lives")


@requires("forks")
async def fork_both_ways(harness: Harness) -> None:
    """after a fork neither sees what the other does"""
    sandbox = await harness.fresh()
    await sandbox.write_file("f", b"both")
    fork = harness.remove_later(await sandbox.fork())
    await sandbox.write_file("f", b"first")
    await fork.write_file("f", b"second")
    await fork.write_file("only", b"")
    same((await sandbox.read_file("f"), await fork.read_file("f")), (b"first", b"second"))
    same(await out(sandbox, "ls only 2>/dev/null || echo none"), "none")


@requires("forks")
async def fork_of_fork(harness: Harness) -> None:
    """a fork can be forked, and outlives what it came from"""
    sandbox = await harness.fresh()
    await sandbox.write_file("f", b"1")
    child = harness.remove_later(await sandbox.fork())
    await child.write_file("g", b"2")
    grandchild = harness.remove_later(await child.fork())
    await child.remove()
    await sandbox.remove()
    same((await grandchild.read_file("f"), await grandchild.read_file("g")), (b"1", b"2"))


@requires("forks")
async def forked_while_busy(harness: Harness) -> None:
    """a sandbox can be forked while a command writes, and the command goes on"""
    sandbox = await harness.fresh()
    line = "i=0; while [ ! -e stop ]; do i=$((i+1)); echo $i > n; done; echo done"
    job = await sandbox.start(ExecRequest(shell=line, timeout=600))
    fork = harness.remove_later(await sandbox.fork())
    await sandbox.write_file("stop", b"")
    same((await job.wait()).stdout.text, "done\n")
    same(await out(fork, "ls stop 2>/dev/null || echo none"), "none")
