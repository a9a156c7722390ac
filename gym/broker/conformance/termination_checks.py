"""Endings: timeouts, whole trees, what is left behind, and commands that do not want to end."""

from __future__ import annotations

import asyncio

from gym.broker.conformance.harness import (
    SOON,
    TIMEOUTS,
    Harness,
    SandboxUnderTest,
    check,
    out,
    own_namespace,
    same,
    sh,
)
from gym.broker.conformance.requires import requires
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecRequest

SLEEPS = "sleep 1000"


async def _alive(sandbox: SandboxUnderTest, file: str) -> list[str]:
    """Which of the pids that a command wrote down still run."""
    line = (
        f"for p in $(cat {file}); do "
        'if [ -e /proc/$p ] && ! grep -q "^State:.Z" /proc/$p/status 2>/dev/null; then echo $p; fi; done'
    )
    return (await sh(sandbox, line)).stdout.text.split()


async def _written(sandbox: SandboxUnderTest, file: str, lines: int) -> None:
    await out(sandbox, f"while [ $(cat {file} 2>/dev/null | wc -l) -lt {lines} ]; do sleep 0.02; done", timeout=SOON)


async def _ends_all(harness: Harness, line: str, count: int) -> None:
    found: list[str] = []
    for timeout in TIMEOUTS:
        sandbox, file = await harness.sandbox(), harness.name()
        result = await sh(sandbox, line.replace("FILE", file), timeout=timeout)
        check(result.timed_out, "it did not time out")
        found = (await sh(sandbox, f"cat {file} 2>/dev/null")).stdout.text.split()
        same(await _alive(sandbox, file), [])
        if len(found) == count:
            return
    same(len(found), count)


async def partial_output(harness: Harness) -> None:
    """a timeout gives back what was written until then"""
    wanted = ("begun\n", "warning\n")
    for timeout in TIMEOUTS:
        result = await sh(await harness.sandbox(), f"echo begun; echo warning >&2; {SLEEPS}", timeout=timeout)
        same((result.timed_out, result.exit_code), (True, None))
        if (result.stdout.text, result.stderr.text) == wanted:
            return
    same((result.stdout.text, result.stderr.text), wanted)


async def after_a_timeout(harness: Harness) -> None:
    """after a timeout the sandbox goes on as before"""
    sandbox = await harness.sandbox()
    await sh(sandbox, SLEEPS, timeout=0.2)
    same(await out(sandbox, "echo fine"), "fine")


async def ends_children(harness: Harness) -> None:
    """a timeout ends children and grandchildren"""
    await _ends_all(harness, f"echo $$ > FILE; sh -c 'echo $$ >> FILE; {SLEEPS} & echo $! >> FILE; wait' & wait", 3)


async def ends_sessions(harness: Harness) -> None:
    """a timeout ends a child that made a session of its own"""
    await _ends_all(harness, f"setsid sh -c 'echo $$ > FILE; {SLEEPS}' & wait; {SLEEPS}", 1)


async def ends_daemons(harness: Harness) -> None:
    """a timeout ends a daemon that forked twice"""
    line = f"(setsid sh -c '(echo $(exec sh -c \"echo \\$PPID\") > FILE; {SLEEPS}; :) & exit 0' &) ; {SLEEPS}"
    await _ends_all(harness, line, 1)


async def ends_the_stubborn(harness: Harness) -> None:
    """a timeout ends a command that ignores SIGTERM, SIGINT and SIGHUP"""
    await _ends_all(harness, "trap '' TERM INT HUP; echo $$ > FILE; while :; do sleep 1000; done", 1)


async def ends_the_stopped(harness: Harness) -> None:
    """a timeout ends a command that has stopped itself"""
    await _ends_all(harness, "echo $$ > FILE; kill -STOP $$", 1)


async def ends_without_guard(harness: Harness) -> None:
    """a timeout ends a command that has killed the process watching over it"""
    await _ends_all(harness, f"echo $$ > FILE; kill -9 $PPID; ({SLEEPS} & echo $! >> FILE); {SLEEPS}", 2)


async def guard_killed(harness: Harness) -> None:
    """a command that kills its guardian is still reported correctly"""
    result = await sh(await harness.sandbox(), "kill -9 $PPID; echo on; sleep 0.1; exit 6", timeout=SOON)
    same((result.exit_code, result.stdout.text), (6, "on\n"))


async def guard_stopped(harness: Harness) -> None:
    """a command that stops the process watching over it is ended in time"""
    for timeout in TIMEOUTS:
        result = await sh(await harness.sandbox(), "kill -STOP $PPID; echo on", timeout=timeout)
        if result.stdout.text == "on\n":
            return
    same(result.stdout.text, "on\n")


async def neighbours_unharmed(harness: Harness) -> None:
    """the timeout of one command leaves its neighbours alone"""
    sandbox, name = await harness.sandbox(), harness.name()
    neighbour = asyncio.create_task(sh(sandbox, f"while [ ! -e {name} ]; do sleep 0.02; done; echo lived"))
    await sh(sandbox, SLEEPS, timeout=0.3)
    check(not neighbour.done(), "the neighbour ended too")
    await sandbox.write_file(name, b"")
    same((await neighbour).stdout.text, "lived\n")


async def background_holds_pipe(harness: Harness) -> None:
    """a background child that holds the pipes does not hold up the result"""
    result = await sh(await harness.sandbox(), f"{SLEEPS} & echo done", timeout=60)
    same((result.exit_code, result.timed_out, result.stdout.text), (0, False, "done\n"))


async def background_lives(harness: Harness) -> None:
    """what a command leaves in the background goes on, and may go on writing"""
    sandbox, name = await harness.sandbox(), harness.name()
    line = f"(while [ ! -e {name} ]; do echo noise; sleep 0.02; done; echo lived > {name}.seen) & echo left"
    same((await sh(sandbox, line)).stdout.text.splitlines()[-1] in ("left", "noise"), True)
    await sandbox.write_file(name, b"")
    same(await out(sandbox, f"while [ ! -s {name}.seen ]; do sleep 0.02; done; cat {name}.seen", timeout=SOON), "lived")


async def leftovers_ended(harness: Harness) -> None:
    """`kill_leftovers` ends what a command left in the background, sessions of their own too"""
    sandbox, name = await harness.sandbox(), harness.name()
    line = f"{SLEEPS} & echo $! > {name}; setsid {SLEEPS} & echo $! >> {name}; exit 4"
    result = await sh(sandbox, line, kill_leftovers=True)
    same((result.exit_code, result.timed_out), (4, False))
    same(await _alive(sandbox, name), [])


async def cancelled(harness: Harness) -> None:
    """a cancelled command is ended"""
    sandbox, name = await harness.sandbox(), harness.name()
    running = asyncio.create_task(sh(sandbox, f"{SLEEPS} & echo $! > {name}; echo $$ >> {name}; wait", timeout=600))
    await _written(sandbox, name, 2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    async with asyncio.timeout(SOON):
        while await _alive(sandbox, name):
            await asyncio.sleep(0.02)


async def orphans_reaped(harness: Harness) -> None:
    """orphans are reaped: no zombies stay"""
    sandbox, file = await harness.sandbox(), harness.name()
    await sh(sandbox, f"i=0; while [ $i -lt 30 ]; do (sh -c 'echo $$ >> {file}' &) ; i=$((i+1)); done")
    await _written(sandbox, file, 30)
    async with asyncio.timeout(SOON):
        while (await sh(sandbox, f"for p in $(cat {file}); do if [ -e /proc/$p ]; then echo $p; fi; done")).stdout.text:
            await asyncio.sleep(0.02)


async def short_timeout(harness: Harness) -> None:
    """a timeout of a hundredth of a second is kept"""
    result = await sh(await harness.sandbox(), SLEEPS, timeout=0.01)
    same((result.timed_out, result.signal), (True, 9))


async def in_time(harness: Harness) -> None:
    """a command that ends in time is not marked"""
    result = await sh(await harness.sandbox(), "exit 0", timeout=60)
    same((result.timed_out, result.oom, result.signal), (False, False, None))


@requires("isolates")
async def kill_everything(harness: Harness) -> None:
    """`kill -9 -1` inside ends commands, not the sandbox"""
    sandbox = await harness.fresh()
    await own_namespace(sandbox, "pid")
    result = await sandbox.exec(ExecRequest(shell=f"{SLEEPS} & kill -9 -1; echo survived", timeout=SOON))
    check(result.exit_code == 0 or result.signal == 9, f"ended with {result.exit_code}, {result.signal}")
    same(await out(sandbox, "echo alive"), "alive")


@requires("isolates")
async def first_process(harness: Harness) -> None:
    """no signal from inside ends the first process"""
    sandbox = await harness.fresh()
    await own_namespace(sandbox, "pid")
    await sh(sandbox, "for s in TERM KILL INT HUP STOP SEGV ABRT QUIT USR1 CHLD; do kill -$s 1; done")
    same(await out(sandbox, "echo alive"), "alive")


@requires("limits")
async def fork_bomb(harness: Harness) -> None:
    """a fork bomb meets its limit, can be ended whole, and the sandbox answers after it"""
    sandbox = await harness.fresh(limits={"pids": 48})
    await sh(sandbox, "f() { f | f & f; }; f 2>/dev/null; sleep 5", timeout=2, kill_leftovers=True)
    async with asyncio.timeout(SOON):
        while not await _answers(sandbox):
            await asyncio.sleep(0.1)


async def _answers(sandbox: SandboxUnderTest) -> bool:
    try:
        return (await sh(sandbox, "echo alive", timeout=SOON)).stdout.text == "alive\n"
    except RolloutError:  # no process was to be had
        return False


@requires("limits")
async def memory_hog(harness: Harness) -> None:
    """a command that takes more memory than there is is ended, reported as out of memory, and alone"""
    sandbox = await harness.fresh(limits={"memory": "96m"})
    result = await sh(sandbox, "head -c 400000000 /dev/zero | tail -c 399999999 | wc -c", timeout=SOON)
    check(result.oom, f"no word of memory: {result.exit_code}, {result.signal}")
    after = await sh(sandbox, "echo alive")
    same((after.stdout.text, after.oom), ("alive\n", False))
