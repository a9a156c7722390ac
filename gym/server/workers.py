"""Calls that may hang, crash or fill the memory: made in child processes, which are killed for it.

Time is CPU time, so that a busy machine changes no reward. Only the call that misbehaves fails; its worker is replaced.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gym.errors import UserError
from gym.server.worker_forks import Forkserver, ForkserverGone, Worker
from gym.wire.failures import RolloutError

WALL_TIMEOUT_SECONDS = 60.0  # of wall time, for a call that gets no CPU, or waits for something
WAIT_SECONDS = 300.0  # for a worker to be free
MAX_WAITING = 10_000
SLACK_SECONDS = 1.0  # of CPU time beyond the limit: then the worker's own timer has been tampered with
LOOK_SECONDS = 1.0
LAST_WORDS_SECONDS = 0.5  # for a worker to say where it was


class WorkerTimeout(RolloutError):
    """The call took more CPU time than it may, or gave no answer for very long."""

    def __init__(self, message: str) -> None:
        super().__init__("timeout", message)


class WorkerTooSlow(WorkerTimeout):
    """The call took more CPU time than it may: its arguments cost that, on any machine."""


class AnswerTooCostly(Exception):
    """To check the answer takes more CPU time or memory than it may, and to check a blank one does not.

    The author of the answer chose that: `/verify` answers 0 with this as `reason`. `cause` is `timeout` or `memory`.
    """

    def __init__(self, message: str, cause: str = "timeout") -> None:
        super().__init__(message)
        self.cause = cause


class WorkerDied(RolloutError):
    """The call ended its process: a crash of a library, a kill by the system."""

    def __init__(self, message: str) -> None:
        super().__init__("resources", message)


class WorkerOutOfMemory(WorkerDied):
    """The call needed more memory than it may have."""


class WorkerRaised(Exception):
    """The called code raised: `type_name` and `message` are the exception's own, `where` its line."""

    def __init__(self, type_name: str, message: str, where: str = "") -> None:
        super().__init__(f"{type_name}: {message}" + (f" ({where})" if where else ""))
        self.type_name = type_name
        self.message = message
        self.where = where


class Workers:
    """`count` processes that call functions of a module in the server's own folder. Started by the first call.

    `timeout` is CPU seconds a call, `memory` bytes of address space a worker (0: any), `wall_timeout` wall seconds
    a call.
    """

    def __init__(
        self,
        module: str,
        *,
        count: int = 2,
        timeout: float = 10.0,
        memory: int = 2 << 30,
        wall_timeout: float = WALL_TIMEOUT_SECONDS,
        folder: Path | None = None,
    ) -> None:
        self._module = module
        self._folder = str(folder or _folder_of(module))
        self._timeout = timeout
        self._memory = memory
        self._wall_timeout = wall_timeout
        self._places = asyncio.Semaphore(count)
        self._waiting = 0
        self._idle: list[Worker] = []
        self._forkserver: Forkserver | None = None
        self._starting = asyncio.Lock()

    async def check(self, function: str, *arguments: Any, blank: Sequence[Any], field: str) -> Any:
        """`call` with something that the policy wrote; `blank` are the arguments with nothing in its place.

        Raises AnswerTooCostly where the answer is why it takes too much; otherwise `field` of the row is to blame.
        """
        try:
            return await self.call(function, *arguments)
        except (WorkerTooSlow, WorkerOutOfMemory) as error:
            cause, message = ("timeout" if isinstance(error, WorkerTooSlow) else "memory"), error.message
        try:
            await self.call(function, *blank)
        except (WorkerTooSlow, WorkerOutOfMemory) as error:
            raise RolloutError("row", f"{field}: even with a blank answer, {error.message}") from None
        except WorkerRaised:
            pass  # what a blank answer is worth is not asked here
        raise AnswerTooCostly(f"checking the answer costs too much: {message}", cause)

    async def judge(
        self, function: str, answer: Any, *arguments: Any, field: str, blank: Any = "", refusal: str = ""
    ) -> Any:
        """`check` of a function whose first argument is the answer, with `blank` as the blank one.

        An exception of the type named `refusal` blames the row: RolloutError, which names `field` before its message.
        """
        try:
            return await self.check(function, answer, *arguments, blank=(blank, *arguments), field=field)
        except WorkerRaised as error:
            if error.type_name != refusal:
                raise
            message = error.message if error.message.startswith(field) else f"{field}: {error.message}"
            raise RolloutError("row", message) from None

    async def call(self, function: str, *arguments: Any, timeout: float | None = None) -> Any:
        """What `module.function(*arguments)` returns; both ways it is JSON. Raises one of the errors above."""
        limit = self._timeout if timeout is None else timeout
        question = json.dumps((function, arguments, limit)).encode()
        await self._wait_for_place()
        try:
            answer = await self._ask(function, question, limit)
        finally:
            self._places.release()
        if "error" in answer:
            raise WorkerRaised(*answer["error"])
        return answer["value"]

    async def close(self) -> None:
        """Ends all of them, busy or not."""
        for worker in self._idle:
            worker.channel.abort()
        self._idle.clear()
        forkserver, self._forkserver = self._forkserver, None
        if forkserver is not None:
            await forkserver.close()

    async def _wait_for_place(self) -> None:
        if not self._places.locked():
            await self._places.acquire()
            return
        if self._waiting >= MAX_WAITING:
            raise RolloutError("resources", f"{MAX_WAITING} calls wait for a worker already", retryable=True)
        self._waiting += 1
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._places.acquire()
        except TimeoutError:
            raise WorkerTimeout(f"no worker was free within {WAIT_SECONDS:g} s") from None
        finally:
            self._waiting -= 1

    async def _ask(self, function: str, question: bytes, limit: float) -> dict[str, Any]:
        worker = await self._take()
        watch = _Watch(worker, limit, self._wall_timeout)
        try:
            reply = await worker.channel.ask(question)
        except BaseException:  # the next caller must not get this answer
            worker.forkserver.bury(worker)
            raise
        finally:
            watch.cancel()
        if not reply:
            status = await worker.forkserver.bury(worker)
            raise self._explain(function, limit, watch.killed_for, status, worker.last_place())
        answer: dict[str, Any] = json.loads(reply)
        if "memory" in answer:
            worker.forkserver.bury(worker)
            raise WorkerOutOfMemory(f"{self._module}.{function} needed more than {self._memory >> 20} MB of memory")
        self._idle.append(worker)
        return answer

    async def _take(self) -> Worker:
        """The worker used last, or a new one; never more than there are places."""
        while self._idle:
            worker = self._idle.pop()
            if not worker.channel.lost and worker.forkserver is self._forkserver:
                return worker
            worker.forkserver.bury(worker)
        try:
            return await (await self._running()).fork()
        except ForkserverGone as error:
            raise RolloutError("resources", f"workers of {self._module}: {error}", retryable=False) from None

    async def _running(self) -> Forkserver:
        async with self._starting:
            if self._forkserver is None or self._forkserver.gone:
                if self._forkserver is not None:
                    await self._forkserver.close()
                self._forkserver = None
                self._forkserver = await Forkserver.start(self._module, self._folder, self._memory)
            return self._forkserver

    def _explain(self, function: str, limit: float, killed_for: str, status: int, place: str | None) -> RolloutError:
        name = f"{self._module}.{function}"
        where = f" ({place})" if place else ""
        if killed_for:
            cause = WorkerTooSlow if killed_for.endswith("CPU time") else WorkerTimeout
            return cause(f"{name} {killed_for}{where}")
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            # Python may crash while it writes where it was (one in a hundred, in generators): its time was up before.
            if number == signal.SIGPROF or place is not None:
                return WorkerTooSlow(f"{name} took more than {limit:g} s of CPU time{where}")
            return WorkerDied(f"{name} ended its process: {signal.Signals(number).name}")
        return WorkerDied(f"{name} ended its process: exit code {os.waitstatus_to_exitcode(status)}")


class _Watch:
    """Kills a worker whose own timer does not: one that waits for ever, or that has switched the timer off."""

    def __init__(self, worker: Worker, limit: float, wall_timeout: float) -> None:
        self._worker = worker
        self._limit = limit
        self._cpu_before = _cpu_seconds(worker.pid)
        self._loop = asyncio.get_running_loop()
        self._wall_timeout = max(wall_timeout, limit)
        self._deadline = self._loop.time() + self._wall_timeout
        self._timer = self._loop.call_later(min(limit + SLACK_SECONDS, self._wall_timeout), self._look)
        self.killed_for = ""

    def cancel(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        left = self._deadline - self._loop.time()
        if _cpu_seconds(self._worker.pid) - self._cpu_before > self._limit + SLACK_SECONDS:
            self.killed_for = f"took more than {self._limit:g} s of CPU time"
        elif left <= 0:
            self.killed_for = f"gave no answer within {self._wall_timeout:g} s"
        if self.killed_for:
            self._worker.interrupt()  # one that can, writes its stack and ends by itself
            self._timer = self._loop.call_later(LAST_WORDS_SECONDS, self._worker.kill)
        else:
            self._timer = self._loop.call_later(min(LOOK_SECONDS, left), self._look)


def _cpu_seconds(pid: int) -> float:
    """Of another process; 0 where the system does not say."""
    if sys.platform != "linux":
        return 0.0
    try:
        return time.clock_gettime((~pid << 3) | 2)  # the number Linux gives that process's clock
    except OSError:
        return 0.0


def _folder_of(module: str) -> Path:
    """Where a top-level module lies, without importing it: this process may never need it."""
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None:
        raise UserError(f"workers: no module {module!r} beside the server", "name a module of the server's own folder")
    origin = Path(spec.origin)
    return origin.parents[1] if origin.name == "__init__.py" else origin.parent
