"""Endings: timeouts, whole trees, what is left behind, and commands that do not want to end."""

from __future__ import annotations

import asyncio

from gym.broker.conformance.harness import PATIENCES, SOON, Lab, Subject, check, out, own_namespace, same, sh
from gym.broker.conformance.needs import needs
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecRequest

SLEEPS = "sleep 1000"


async def _alive(box: Subject, file: str) -> list[str]:
    """Which of the pids that a command wrote down still run."""
    line = (
        f"for p in $(cat {file}); do "
        'if [ -e /proc/$p ] && ! grep -q "^State:.Z" /proc/$p/status 2>/dev/null; then echo $p; fi; done'
    )
    return (await sh(box, line)).stdout.text.split()


async def _written(box: Subject, file: str, lines: int) -> None:
    await out(box, f"while [ $(cat {file} 2>/dev/null | wc -l) -lt {lines} ]; do sleep 0.02; done", timeout=SOON)


async def _ends_all(lab: Lab, line: str, count: int) -> None:
    found: list[str] = []
    for timeout in PATIENCES:
        box, file = await lab.box(), lab.name()
        result = await sh(box, line.replace("FILE", file), timeout=timeout)
        check(result.timed_out, "it did not time out")
        found = (await sh(box, f"cat {file} 2>/dev/null")).stdout.text.split()
        same(await _alive(box, file), [])
        if len(found) == count:
            return
    same(len(found), count)


async def partial_output(lab: Lab) -> None:
    """a timeout gives back what was written until then"""
    wanted = ("begun\n", "trouble\n")
    for timeout in PATIENCES:
        result = await sh(await lab.box(), f"echo begun; echo trouble >&2; {SLEEPS}", timeout=timeout)
        same((result.timed_out, result.exit_code), (True, None))
        if (result.stdout.text, result.stderr.text) == wanted:
            return
    same((result.stdout.text, result.stderr.text), wanted)


async def after_a_timeout(lab: Lab) -> None:
    """after a timeout the sandbox goes on as before"""
    box = await lab.box()
    await sh(box, SLEEPS, timeout=0.2)
    same(await out(box, "echo fine"), "fine")


async def ends_children(lab: Lab) -> None:
    """a timeout ends children and grandchildren"""
    await _ends_all(lab, f"echo $$ > FILE; sh -c 'echo $$ >> FILE; {SLEEPS} & echo $! >> FILE; wait' & wait", 3)


async def ends_sessions(lab: Lab) -> None:
    """a timeout ends a child that made a session of its own"""
    await _ends_all(lab, f"setsid sh -c 'echo $$ > FILE; {SLEEPS}' & wait; {SLEEPS}", 1)


async def ends_daemons(lab: Lab) -> None:
    """a timeout ends a daemon that forked twice"""
    line = f"(setsid sh -c '(echo $(exec sh -c \"echo \\$PPID\") > FILE; {SLEEPS}; :) & exit 0' &) ; {SLEEPS}"
    await _ends_all(lab, line, 1)


async def ends_the_stubborn(lab: Lab) -> None:
    """a timeout ends a command that ignores SIGTERM, SIGINT and SIGHUP"""
    await _ends_all(lab, "trap '' TERM INT HUP; echo $$ > FILE; while :; do sleep 1000; done", 1)


async def ends_the_stopped(lab: Lab) -> None:
    """a timeout ends a command that has stopped itself"""
    await _ends_all(lab, "echo $$ > FILE; kill -STOP $$", 1)


async def ends_without_guard(lab: Lab) -> None:
    """a timeout ends a command that has killed the process watching over it"""
    await _ends_all(lab, f"echo $$ > FILE; kill -9 $PPID; ({SLEEPS} & echo $! >> FILE); {SLEEPS}", 2)


async def guard_killed(lab: Lab) -> None:
    """a command that kills the process watching over it is still told truly"""
    result = await sh(await lab.box(), "kill -9 $PPID; echo on; sleep 0.1; exit 6", timeout=SOON)
    same((result.exit_code, result.stdout.text), (6, "on\n"))


async def guard_stopped(lab: Lab) -> None:
    """a command that stops the process watching over it is ended in time"""
    for timeout in PATIENCES:
        result = await sh(await lab.box(), "kill -STOP $PPID; echo on", timeout=timeout)
        if result.stdout.text == "on\n":
            return
    same(result.stdout.text, "on\n")


async def neighbours_unharmed(lab: Lab) -> None:
    """the timeout of one command leaves its neighbours alone"""
    box, name = await lab.box(), lab.name()
    neighbour = asyncio.create_task(sh(box, f"while [ ! -e {name} ]; do sleep 0.02; done; echo lived"))
    await sh(box, SLEEPS, timeout=0.3)
    check(not neighbour.done(), "the neighbour ended too")
    await box.write_file(name, b"")
    same((await neighbour).stdout.text, "lived\n")


async def background_holds_pipe(lab: Lab) -> None:
    """a background child that holds the pipes does not hold up the result"""
    result = await sh(await lab.box(), f"{SLEEPS} & echo done", timeout=60)
    same((result.exit_code, result.timed_out, result.stdout.text), (0, False, "done\n"))


async def background_lives(lab: Lab) -> None:
    """what a command leaves in the background goes on, and may go on writing"""
    box, name = await lab.box(), lab.name()
    line = f"(while [ ! -e {name} ]; do echo noise; sleep 0.02; done; echo lived > {name}.seen) & echo left"
    same((await sh(box, line)).stdout.text.splitlines()[-1] in ("left", "noise"), True)
    await box.write_file(name, b"")
    same(await out(box, f"while [ ! -s {name}.seen ]; do sleep 0.02; done; cat {name}.seen", timeout=SOON), "lived")


async def leftovers_ended(lab: Lab) -> None:
    """`kill_leftovers` ends what a command left in the background, sessions of their own too"""
    box, name = await lab.box(), lab.name()
    line = f"{SLEEPS} & echo $! > {name}; setsid {SLEEPS} & echo $! >> {name}; exit 4"
    result = await sh(box, line, kill_leftovers=True)
    same((result.exit_code, result.timed_out), (4, False))
    same(await _alive(box, name), [])


async def cancelled(lab: Lab) -> None:
    """a command that nobody waits for any more is ended"""
    box, name = await lab.box(), lab.name()
    running = asyncio.create_task(sh(box, f"{SLEEPS} & echo $! > {name}; echo $$ >> {name}; wait", timeout=600))
    await _written(box, name, 2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    async with asyncio.timeout(SOON):
        while await _alive(box, name):
            await asyncio.sleep(0.02)


async def orphans_reaped(lab: Lab) -> None:
    """orphans are reaped: no zombies stay"""
    box, file = await lab.box(), lab.name()
    await sh(box, f"i=0; while [ $i -lt 30 ]; do (sh -c 'echo $$ >> {file}' &) ; i=$((i+1)); done")
    await _written(box, file, 30)
    async with asyncio.timeout(SOON):
        while (await sh(box, f"for p in $(cat {file}); do if [ -e /proc/$p ]; then echo $p; fi; done")).stdout.text:
            await asyncio.sleep(0.02)


async def short_timeout(lab: Lab) -> None:
    """a timeout of a hundredth of a second is kept"""
    result = await sh(await lab.box(), SLEEPS, timeout=0.01)
    same((result.timed_out, result.signal), (True, 9))


async def in_time(lab: Lab) -> None:
    """a command that ends in time is not marked"""
    result = await sh(await lab.box(), "exit 0", timeout=60)
    same((result.timed_out, result.oom, result.signal), (False, False, None))


@needs("isolates")
async def kill_everything(lab: Lab) -> None:
    """`kill -9 -1` inside ends commands, not the sandbox"""
    box = await lab.fresh()
    await own_namespace(box, "pid")
    result = await box.exec(ExecRequest(shell=f"{SLEEPS} & kill -9 -1; echo survived", timeout=SOON))
    check(result.exit_code == 0 or result.signal == 9, f"ended with {result.exit_code}, {result.signal}")
    same(await out(box, "echo alive"), "alive")


@needs("isolates")
async def first_process(lab: Lab) -> None:
    """no signal from inside ends the first process"""
    box = await lab.fresh()
    await own_namespace(box, "pid")
    await sh(box, "for s in TERM KILL INT HUP STOP SEGV ABRT QUIT USR1 CHLD; do kill -$s 1; done")
    same(await out(box, "echo alive"), "alive")


@needs("limits")
async def fork_bomb(lab: Lab) -> None:
    """a fork bomb meets its limit, can be ended whole, and the sandbox answers after it"""
    box = await lab.fresh(limits={"pids": 48})
    await sh(box, "f() { f | f & f; }; f 2>/dev/null; sleep 5", timeout=2, kill_leftovers=True)
    async with asyncio.timeout(SOON):
        while not await _answers(box):
            await asyncio.sleep(0.1)


async def _answers(box: Subject) -> bool:
    try:
        return (await sh(box, "echo alive", timeout=SOON)).stdout.text == "alive\n"
    except RolloutError:  # no process was to be had
        return False


@needs("limits")
async def memory_hog(lab: Lab) -> None:
    """a command that takes more memory than there is is ended, told as that, and alone"""
    box = await lab.fresh(limits={"memory": "96m"})
    result = await sh(box, "head -c 400000000 /dev/zero | tail -c 399999999 | wc -c", timeout=SOON)
    check(result.oom, f"no word of memory: {result.exit_code}, {result.signal}")
    after = await sh(box, "echo alive")
    same((after.stdout.text, after.oom), ("alive\n", False))
