"""One rollout, tried until it is a rollout or a failure.

Attempts are whole, backed off, and none begins while a breaker is open.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gym.collect.breaker import Breaker
from gym.collect.options import AttemptOptions
from gym.collect.provenance import Circumstances, describe_headers
from gym.collect.replies import NotKept, Rolled, read_reply
from gym.collect.rows import Task
from gym.collect.targets import Replica, Targets
from gym.labels import HEADER_ROLLOUT, HEADER_TIMEOUT
from gym.server.http import HttpClient, NotSent, Reply
from gym.wire.failures import RolloutError

_GRACE_SECONDS = 2.0  # a server that obeys its deadline has a better story to tell than a closed connection
_LONGEST_BACKOFF = 30.0


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a task: a rollout or a failure. None of both: the agent asked not to keep it."""

    rolled: Rolled | None
    failure: RolloutError | None
    how: Circumstances


@dataclass(slots=True)
class Attempts:
    """Shared by all workers of a run."""

    http: HttpClient
    targets: Targets
    options: AttemptOptions
    in_flight: int = 0
    retries: int = 0
    breakers: dict[str, Breaker] = field(default_factory=dict)
    run_id: str = field(default_factory=lambda: secrets.token_hex(4))
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)

    def open(self, on_pause: Callable[[str, str], None]) -> None:
        """`on_pause` is told the agent and the reason, and an empty reason when it goes on."""
        for agent in self.targets.agents:
            self.breakers[agent] = Breaker(
                agent,
                first_wait=self.options.backoff * 2,
                max_pause=self.options.max_pause,
                on_change=on_pause,
            )

    async def watch(self) -> None:
        """Beside the workers: ends pauses; raises `GaveUp`."""
        async with asyncio.TaskGroup() as group:
            for breaker in self.breakers.values():
                group.create_task(breaker.watch(self.targets.probe))

    def stop(self) -> None:
        """Attempts under way go on; none begins."""
        self._stopped.set()
        for breaker in self.breakers.values():
            breaker.stop()

    @property
    def paused_reason(self) -> str:
        return "; ".join(one.reason for one in self.breakers.values() if one.reason)

    async def run(self, task: Task) -> Ended | None:
        """None when the run stopped before the rollout was one: another run will do it."""
        breaker = self.breakers[task.agent]
        charged = tries = 0
        taken = time.monotonic()
        while await breaker.admit():
            tries += 1
            stack, digest = self.targets.stack, self.targets.digests.get(task.agent, "")
            started, clock = time.time(), time.monotonic()
            rolled, failure, told = await self._attempt(task, tries)
            seconds, queued = time.monotonic() - clock, clock - taken
            how = Circumstances(tries, started, seconds, queued, stack, digest[:16], told)
            held = breaker.record(task.key, failure)
            if failure is None:
                return Ended(rolled, None, how)
            charged += held
            if held and (not failure.retryable or charged >= self.options.max_attempts):
                return Ended(None, failure, how)
            self.retries += 1
            if held:
                await self._back_off(charged)
            if self._stopped.is_set():
                return None
        return None

    async def _attempt(self, task: Task, number: int) -> tuple[Rolled | None, RolloutError | None, dict[str, Any]]:
        """A rollout or a failure, and what the reply said of its own way, when there was one."""
        told: dict[str, Any] = {}
        self.in_flight += 1
        try:
            reply = await self._send(task, number)
            told = describe_headers(reply)
            return read_reply(reply, task.agent), None, told
        except NotKept:
            return None, None, told
        except RolloutError as failure:
            return None, failure, told
        finally:
            self.in_flight -= 1

    async def _send(self, task: Task, number: int) -> Reply:
        """To one replica after another as long as none has seen a byte; to one only after that."""
        tried: list[Replica] = []
        body, last = task.body, ""
        headers = self._headers(task, number)
        while (replica := self.targets.pick(task.agent, tried)) is not None:
            try:
                return await self._post(replica, body, headers)
            except NotSent as error:
                self.targets.shun(replica)
                tried.append(replica)
                last = str(error)
            except TimeoutError:
                what = f"no answer within {self.options.timeout:g} s"
                raise RolloutError("timeout", what, server=task.agent) from None
            except OSError as error:
                self.targets.shun(replica)
                raise RolloutError("agent", f"lost on the way: {error}", server=task.agent) from error
        raise RolloutError("agent", f"cannot be reached: {last}", server=task.agent)

    async def _post(self, replica: Replica, body: bytes, headers: tuple[tuple[bytes, bytes], ...]) -> Reply:
        replica.in_flight += 1
        replica.served += 1
        try:
            return await self.http.request(
                "POST",
                replica.url + "/run",
                body=body,
                headers=headers + replica.headers,
                timeout=self.options.timeout + min(self.options.timeout, _GRACE_SECONDS),
            )
        finally:
            replica.in_flight -= 1

    def _headers(self, task: Task, number: int) -> tuple[tuple[bytes, bytes], ...]:
        rollout = f"{self.run_id}-{task.task_index}-{task.rollout_index}" + (f"-a{number}" if number > 1 else "")
        return (
            (HEADER_ROLLOUT.encode(), rollout.encode()),
            (HEADER_TIMEOUT.encode(), b"%.3f" % self.options.timeout),
        )

    async def _back_off(self, charged: int) -> None:
        delay = min(self.options.backoff * 2 ** (charged - 1), _LONGEST_BACKOFF) * random.uniform(0.5, 1.5)
        try:
            async with asyncio.timeout(delay):
                await self._stopped.wait()
        except TimeoutError:
            return
