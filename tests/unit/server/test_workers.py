"""Workers: real processes that hang, crash, eat memory and tamper with what guards them."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gym.errors import UserError
from gym.server.workers import (
    AnswerTooCostly,
    WorkerDied,
    WorkerOutOfMemory,
    WorkerRaised,
    Workers,
    WorkerTimeout,
    WorkerTooSlow,
)
from gym.wire.failures import RolloutError

pytestmark = pytest.mark.asyncio
ROOT = Path(__file__).parents[3]
CODE = """
import os, signal, subprocess, sys, time

def add(a, b): return a + b
def echo(value): return value
def pid(): return os.getpid()
def spin():
    while True: pass
def tamper():
    signal.signal(signal.SIGPROF, lambda *_: None)
    while True: pass
def crash(): os.kill(os.getpid(), signal.SIGSEGV)
def generate():
    while True: list(x for x in ((i,) + (2,) for i in range(1000)))
def crash_over_its_stack():
    for fd in os.listdir("/proc/self/fd"):
        if os.path.islink(f"/proc/self/fd/{fd}") and os.readlink(f"/proc/self/fd/{fd}").startswith("pipe:"):
            try: os.write(int(fd), b"Stack (most recent call first):")
            except OSError: pass
    crash()
def leave(): os._exit(3)
def eat(): return len([0] * (1 << 34))
def boom(): raise ValueError("bad")
class BadRow(ValueError): pass
def grade(answer, pattern):
    if pattern == "(": raise BadRow("( is not a pattern")
    if pattern == "spec: [": raise BadRow("spec: [ is not a pattern")
    if answer == "spin": spin()
    if answer == "raise": raise ValueError("odd")
    return len(answer)
def exits(): raise SystemExit("gone")
def give_set(): return {1}
def deep(): return deep()
def environment(): return dict(os.environ)
def shout(): print("heard"); return sys.stdout is sys.__stdout__
def hold(path):
    with open(path, "w") as file:
        print(os.getpid(), file=file, flush=True)
        time.sleep(1e6)
def hold_in_child(path):
    subprocess.Popen(["sh", "-c", "echo started; exec sleep 1000000"], stdout=open(path, "w"))
    time.sleep(1e6)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "graders.py").write_text(CODE)
    return tmp_path


@asynccontextmanager
async def started(folder: Path, **options: Any) -> AsyncIterator[Workers]:
    workers = Workers("graders", folder=folder, **options)
    try:
        yield workers
    finally:
        await workers.close()


async def test_a_function_of_the_module_is_called_with_what_json_can_say(folder: Path) -> None:
    async with started(folder) as workers:
        assert await workers.call("add", 1, 2) == 3
        for value in ({"a": [1.5, None, True]}, 2**200, "lone \ud800 ü \u2028", "x" * 3_000_000):
            assert await workers.call("echo", value) == value


async def test_a_worker_is_kept_between_calls_and_the_pool_is_no_larger_than_said(folder: Path) -> None:
    async with started(folder, count=2) as workers:
        first = await workers.call("pid")
        assert await workers.call("pid") == first
        assert len(set(await asyncio.gather(*(workers.call("pid") for _ in range(40))))) <= 2


async def test_what_the_code_raises_comes_back_with_its_line(folder: Path) -> None:
    async with started(folder, count=1) as workers:
        pid = await workers.call("pid")
        with pytest.raises(WorkerRaised, match=r"ValueError: bad \(graders.py:\d+ in boom\)") as caught:
            await workers.call("boom")
        assert (caught.value.type_name, caught.value.message) == ("ValueError", "bad")
        for function, kind in (("exits", "SystemExit"), ("deep", "RecursionError"), ("give_set", "TypeError")):
            with pytest.raises(WorkerRaised, match=kind):
                await workers.call(function)
        with pytest.raises(WorkerRaised, match="AttributeError"):
            await workers.call("no_such_function")
        assert await workers.call("pid") == pid


async def test_a_call_that_never_ends_is_killed_by_its_cpu_time_and_the_next_is_answered(folder: Path) -> None:
    async with started(folder, count=1) as workers:
        with pytest.raises(WorkerTimeout, match=r"graders.spin took more than 0\.1 s of CPU time") as caught:
            await workers.call("spin", timeout=0.1)
        assert caught.value.kind == "timeout"
        assert await workers.call("add", 1, 2) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell a process's CPU time")
async def test_code_that_disarms_its_timer_is_killed_from_outside(folder: Path) -> None:
    async with started(folder, count=1) as workers:
        with pytest.raises(WorkerTimeout, match="of CPU time"):
            await workers.call("tamper", timeout=0.1)


async def test_a_call_that_waits_for_ever_is_killed_by_the_clock(folder: Path, tmp_path: Path) -> None:
    async with started(folder, count=1, timeout=0.1, wall_timeout=5) as workers:
        with pytest.raises(WorkerTimeout, match="gave no answer within 5 s"):
            await workers.call("hold", str(tmp_path / "held"))
        assert await workers.call("add", 1, 2) == 3


async def test_waiting_costs_no_cpu_time_and_is_not_a_timeout(folder: Path) -> None:
    async with started(folder, count=1, timeout=0.2) as workers:
        pid = await workers.call("pid")
        os.kill(pid, signal.SIGSTOP)  # a worker that gets no CPU
        asking = asyncio.create_task(workers.call("add", 1, 2))
        await asyncio.wait([asking], timeout=1)
        assert not asking.done()
        os.kill(pid, signal.SIGCONT)
        assert await asking == 3


@pytest.mark.skipif(sys.platform != "linux", reason="it finds the pipe in /proc")
async def test_one_that_crashes_while_it_writes_where_it_was_ran_out_of_time(folder: Path) -> None:
    async with started(folder) as workers:
        with pytest.raises(WorkerTooSlow, match="CPU time"):
            await workers.call("crash_over_its_stack")
        replies = await asyncio.gather(
            *(workers.call("generate", timeout=0.004) for _ in range(40)), return_exceptions=True
        )
    assert [one for one in replies if not isinstance(one, WorkerTooSlow)] == []


async def test_a_crash_costs_its_own_call_only(folder: Path) -> None:
    async with started(folder, count=2) as workers:
        replies = await asyncio.gather(
            *(workers.call(name) for name in ("crash", "leave")),
            *(workers.call("add", number, 1) for number in range(20)),
            return_exceptions=True,
        )
    assert replies[2:] == list(range(1, 21))
    assert isinstance(replies[0], WorkerDied)
    assert "SIGSEGV" in str(replies[0])
    assert "exit code 3" in str(replies[1])


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has no limit on address space")
async def test_a_call_that_wants_too_much_memory_is_reported(folder: Path) -> None:
    async with started(folder, memory=256 << 20) as workers:
        with pytest.raises(WorkerOutOfMemory, match="more than 256 MB") as caught:
            await workers.call("eat")
        assert caught.value.kind == "resources"
        assert await workers.call("add", 1, 2) == 3


async def test_a_caller_that_gives_up_ends_its_call_and_no_caller_gets_the_answer(folder: Path, tmp_path: Path) -> None:
    fifo = make_fifo(tmp_path)
    async with started(folder, count=1) as workers:
        asking = asyncio.create_task(workers.call("hold", fifo))
        with Held(fifo) as held:
            await asyncio.to_thread(held.read_line)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            assert await asyncio.to_thread(held.ends)
        assert await workers.call("add", 1, 2) == 3


async def test_what_a_killed_call_had_started_ends_with_it(folder: Path, tmp_path: Path) -> None:
    fifo = make_fifo(tmp_path)
    async with started(folder, count=1) as workers:
        asking = asyncio.create_task(workers.call("hold_in_child", fifo))
        with Held(fifo) as held:
            await asyncio.to_thread(held.read_line)
            asking.cancel()
            assert await asyncio.to_thread(held.ends)
        await asyncio.wait([asking])


async def test_workers_end_with_the_pool(folder: Path, tmp_path: Path) -> None:
    fifo = make_fifo(tmp_path)
    async with started(folder) as workers:
        asking = asyncio.create_task(workers.call("hold", fifo))
        with Held(fifo) as held:
            await asyncio.to_thread(held.read_line)
            await workers.close()
            assert await asyncio.to_thread(held.ends)
        with pytest.raises(RolloutError):
            await asking


async def test_workers_end_with_a_server_that_is_killed(folder: Path, tmp_path: Path) -> None:
    fifo = make_fifo(tmp_path)
    script = f"""
import asyncio
from pathlib import Path
from gym.server.workers import Workers
asyncio.run(Workers("graders", folder=Path({str(folder)!r})).call("hold", {fifo!r}))
"""
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT) as server, Held(fifo) as held:
        await asyncio.to_thread(held.read_line)
        server.kill()
        assert await asyncio.to_thread(held.ends)


async def test_after_the_death_of_their_forkserver_new_workers_are_made(folder: Path) -> None:
    async with started(folder, count=1) as workers:
        assert await workers.call("add", 1, 2) == 3
        assert workers._forkserver is not None
        workers._forkserver.process.kill()
        workers._forkserver.process.wait()
        for _ in range(2):
            assert await workers.call("add", 1, 2) == 3


async def test_an_idle_worker_that_died_is_replaced(folder: Path) -> None:
    async with started(folder, count=1) as workers:
        os.kill(await workers.call("pid"), signal.SIGKILL)
        async with asyncio.timeout(120):
            while not workers._idle[0].channel.lost:
                await asyncio.sleep(0.001)
        assert await workers.call("add", 1, 2) == 3


async def test_a_module_that_cannot_be_imported_says_why(tmp_path: Path) -> None:
    (tmp_path / "graders.py").write_text("import no_such_library\n")
    async with started(tmp_path) as workers:
        with pytest.raises(RolloutError, match="workers of graders: ModuleNotFoundError.*no_such_library") as caught:
            await workers.call("add", 1, 2)
        assert caught.value.retryable is False


async def test_a_module_is_found_beside_the_server(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(folder))
    workers = Workers("graders")
    assert await workers.call("add", 1, 2) == 3
    await workers.close()
    with pytest.raises(UserError, match="no module 'no_such_graders' beside the server"):
        Workers("no_such_graders")


async def test_the_settings_of_a_server_stay_with_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NEMO_GYM_CONFIG_DICT", "GYM_DISCOVERY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("LANG", "C.UTF-8")
    async with started(folder) as workers:
        environment = await workers.call("environment")
    assert "secret" not in environment.values()
    assert environment["LANG"] == "C.UTF-8"


async def test_more_callers_than_may_wait_are_sent_away(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gym.server.workers.MAX_WAITING", 3)
    async with started(folder, count=1) as workers:
        replies = await asyncio.gather(*(workers.call("add", one, 0) for one in range(6)), return_exceptions=True)
    assert replies[:4] == [0, 1, 2, 3]
    assert all(isinstance(one, RolloutError) and one.retryable for one in replies[4:])


async def test_a_long_wait_for_a_worker_times_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gym.server.workers.WAIT_SECONDS", 0.05)
    async with started(folder, count=1) as workers:
        busy = asyncio.create_task(workers.call("spin", timeout=30))
        await asyncio.sleep(0)
        with pytest.raises(WorkerTimeout, match=r"no worker was free within 0\.05 s"):
            await workers.call("add", 1, 2)
        busy.cancel()
        await asyncio.wait([busy])
        assert await workers.call("add", 1, 2) == 3


def make_fifo(folder: Path) -> str:
    path = folder / "fifo"
    os.mkfifo(path)
    return str(path)


class Held:
    """The reading end of a pipe that a worker holds open for as long as it lives."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def read_line(self) -> bytes:
        """A pipe that is not opened yet looks ended: not to be believed before the first line."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            select.select([self._fd], [], [], 1)
            try:
                if line := os.read(self._fd, 100):
                    return line
            except BlockingIOError:
                continue
            time.sleep(0.005)
        raise AssertionError("nothing was written")

    def ends(self) -> bool:
        return bool(select.select([self._fd], [], [], 120)[0]) and os.read(self._fd, 100) == b""


async def test_a_call_that_does_not_return_is_named_by_its_line(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gym.server.workers.LAST_WORDS_SECONDS", 120)  # it ends as soon as it has said them
    lines = CODE.splitlines()
    async with started(folder, timeout=0.3) as workers:
        with pytest.raises(WorkerTimeout, match="took more than 0.3 s of CPU time") as spun:
            await workers.call("spin")
    async with started(folder, timeout=0.2, wall_timeout=5) as workers:
        with pytest.raises(WorkerTimeout, match="gave no answer within 5 s") as slept:
            await workers.call("hold", str(tmp_path / "pid"))
        assert await workers.call("add", 1, 2) == 3
    assert f"(graders.py:{lines.index('    while True: pass') + 1} in spin)" in str(spun.value)
    assert f"(graders.py:{lines.index('        time.sleep(1e6)') + 1} in hold)" in str(slept.value)


async def test_a_judged_answer_is_scored_and_each_failure_is_reported_as_what_it_is(folder: Path) -> None:
    async with started(folder, count=1, timeout=0.3) as workers:
        assert await workers.judge("grade", "four", "x", field="spec") == 4
        for pattern in ("(", "spec: ["):
            with pytest.raises(RolloutError, match=r"^spec: [(\[] is not a pattern$") as caught:
                await workers.judge("grade", "four", pattern, field="spec", refusal="BadRow")
            assert caught.value.kind == "row"
        with pytest.raises(AnswerTooCostly, match="checking the answer costs too much"):
            await workers.judge("grade", "spin", "x", field="spec")
        with pytest.raises(RolloutError, match="spec: even with a blank answer"):
            await workers.judge("grade", "spin", "x", field="spec", blank="spin")
        with pytest.raises(WorkerRaised, match="odd"):
            await workers.judge("grade", "raise", "x", field="spec", refusal="BadRow")
