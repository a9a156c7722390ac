"""Jobs: commands that run on while others do, with their input open, and terminals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gym.broker.conformance.harness import SOON, TIMEOUTS, Harness, check, fail, out, same
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecRequest


class OutputRecorder:
    """Everything that came, and a way to wait for words in it."""

    def __init__(self) -> None:
        self.seen = bytearray()
        self._more = asyncio.Event()

    def take(self, stream: int, data: bytes) -> None:
        self.seen += data
        self._more.set()

    async def wait_for(self, words: bytes) -> None:
        await self.wait_until(lambda: words in self.seen, f"{words!r}")

    async def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(SOON):
                while not holds():
                    self._more.clear()
                    await self._more.wait()
        except TimeoutError:
            fail(f"waited for {what}, found {bytes(self.seen[-200:])!r}")


async def conversation(harness: Harness) -> None:
    """a job takes input when it is given, and answers as it goes"""
    screen = OutputRecorder()
    job = await (await harness.sandbox()).start(
        ExecRequest(shell="while read x; do echo got $x; done; echo end"), screen.take
    )
    for word in (b"one", b"two"):
        await job.write(word + b"\n")
        await screen.wait_for(b"got " + word)
    check(job.running, "it has ended")
    await job.close_stdin()
    result = await job.wait()
    same((result.exit_code, result.stdout.text), (0, "got one\ngot two\nend\n"))
    check(not job.running, "it runs on")


async def job_without_listener(harness: Harness) -> None:
    """a job without a listener keeps its output for its result"""
    job = await (await harness.sandbox()).start(ExecRequest(shell="cat; seq 1 100000", max_output=2000))
    await job.write(b"given\n")
    await job.close_stdin()
    result = await job.wait()
    check(result.stdout.data.startswith(b"given\n1\n") and result.stdout.data.endswith(b"100000\n"), "no head or tail")
    check(result.stdout.dropped > 0, "nothing was cut")


async def missing_job(harness: Harness) -> None:
    """a job whose command is not there is an error at its start"""
    try:
        await (await harness.sandbox()).start(ExecRequest(argv=("no-such-command-anywhere",)))
    except RolloutError:
        return
    fail("no error")


async def killed(harness: Harness) -> None:
    """a killed job ends with all its children"""
    sandbox, name = await harness.sandbox(), harness.name()
    screen = OutputRecorder()
    line = f"sleep 1000 & echo $! > {name}; setsid sleep 1000 & echo $! >> {name}; echo ready; wait"
    job = await sandbox.start(ExecRequest(shell=line, timeout=600), screen.take)
    await screen.wait_for(b"ready")
    await job.kill()
    result = await job.wait()
    same((result.signal, result.timed_out), (9, False))
    same(await out(sandbox, f"for p in $(cat {name}); do if [ -e /proc/$p ]; then echo $p; fi; done"), "")


async def asked_to_end(harness: Harness) -> None:
    """a job may catch a signal that it is sent"""
    screen = OutputRecorder()
    line = "trap 'echo caught; exit 5' USR1; echo ready; while :; do sleep 0.02; done"
    job = await (await harness.sandbox()).start(ExecRequest(shell=line), screen.take)
    await screen.wait_for(b"ready")
    await job.kill(10)
    await screen.wait_for(b"caught")
    await job.kill()
    await job.wait()


async def job_times_out(harness: Harness) -> None:
    """a job has a timeout too"""
    for timeout in TIMEOUTS:
        job = await (await harness.sandbox()).start(ExecRequest(shell="echo begun; sleep 1000", timeout=timeout))
        result = await job.wait()
        check(result.timed_out, "it did not time out")
        if result.stdout.text == "begun\n":
            return
    same(result.stdout.text, "begun\n")


async def so_far(harness: Harness) -> None:
    """what a job has written so far can be read while it runs"""
    screen = OutputRecorder()
    job = await (await harness.sandbox()).start(ExecRequest(shell="echo early; sleep 1000", timeout=600), screen.take)
    await screen.wait_for(b"early")
    same((await job.peek()).stdout.text, "early\n")
    check(job.running, "it has ended")
    await job.kill()
    same((await job.wait()).signal, 9)


async def two_jobs(harness: Harness) -> None:
    """two jobs and a command run side by side"""
    sandbox = await harness.sandbox()
    jobs = [await sandbox.start(ExecRequest(shell="read x; echo $x; exit 0")) for _ in range(2)]
    same(await out(sandbox, "echo between"), "between")
    for number, job in enumerate(jobs):
        await job.write(b"%d\n" % number)
    same([(await job.wait()).stdout.text for job in jobs], ["0\n", "1\n"])


async def much_input(harness: Harness) -> None:
    """eight MiB given to a job bit by bit arrive whole"""
    job = await (await harness.sandbox()).start(ExecRequest(shell="wc -c", timeout=120))
    for _ in range(128):
        await job.write(b"x" * 65536)
    await job.close_stdin()
    same((await job.wait()).stdout.text.strip(), str(128 * 65536))


async def terminal(harness: Harness) -> None:
    """a terminal is one, has the size that was asked for, and takes another"""
    screen = OutputRecorder()
    shell = await (await harness.sandbox()).start(ExecRequest(argv=("sh",), timeout=600), screen.take, tty=(24, 80))
    await shell.write(b"stty size; test -t 0 && test -t 1 && echo a tt'y'\n")
    await screen.wait_for(b"24 80")
    await screen.wait_for(b"a tty")
    await shell.resize(40, 132)
    await shell.write(b"stty size\n")
    await screen.wait_for(b"40 132")
    await shell.write(b"exit 7\n")
    same((await shell.wait()).exit_code, 7)


async def terminal_interrupt(harness: Harness) -> None:
    """Ctrl-C at a terminal ends the command in front, not the shell"""
    screen = OutputRecorder()
    shell = await (await harness.sandbox()).start(ExecRequest(argv=("sh",), timeout=600), screen.take, tty=(24, 80))
    await shell.write(b"echo be''gun; sleep 1000\n")
    await screen.wait_for(b"begun")
    async with asyncio.timeout(SOON):
        while b"after" not in screen.seen:  # a shell that is just forking its command loses the first
            await shell.write(b"\x03")
            await shell.write(b"echo af''ter\n")
            await asyncio.sleep(0.1)
    await shell.kill()
    await shell.wait()


async def terminal_ends(harness: Harness) -> None:
    """closing the input of a terminal is an end of file to its shell"""
    screen = OutputRecorder()
    shell = await (await harness.sandbox()).start(ExecRequest(argv=("cat",), timeout=600), screen.take, tty=(24, 80))
    await shell.write(b"line\n")
    await screen.wait_for(b"line\r\nline")
    await shell.close_stdin()
    same((await shell.wait()).exit_code, 0)
