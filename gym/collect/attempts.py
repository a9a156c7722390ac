"""One rollout, attempted until it is a rollout or a failure.

A retry is a whole new attempt, after a back-off; none begins while a circuit breaker is open.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from gym.collect.agent_replicas import AgentReplica, Header
from gym.collect.circuit_breaker import CircuitBreaker
from gym.collect.collect_options import AttemptOptions
from gym.collect.provenance import AttemptInfo, describe_headers
from gym.collect.run_replies import NotKept, VerifiedRollout, read_reply, without_key, without_key_in_failure
from gym.collect.targets import Targets
from gym.collect.task_reader import Task
from gym.http.pool import HttpClient, NotSent, Reply
from gym.http.tracing import TRACING
from gym.labels import HEADER_ERROR, HEADER_ROLLOUT, HEADER_TIMEOUT
from gym.wire.failures import RolloutError, has_no_route

_GRACE_SECONDS = 2.0  # a server that obeys its deadline reports more than a closed connection does
_MAX_BACKOFF = 30.0
_ROUTER_STARTS_SECONDS, _ROUTER_RETRY_SECONDS = 10.0, 0.2  # until it has read its files it answers 404
_ROLLOUT: Final = HEADER_ROLLOUT.encode()


class TaskResult(NamedTuple):
    """The result of a task: a rollout or a failure. With neither, the agent asked not to keep it."""

    rolled: VerifiedRollout | None
    failure: RolloutError | None
    how: AttemptInfo


class StartLimit(Protocol):
    """Decides when an attempt may start, where the number of workers alone does not."""

    async def enter(self) -> Mapping[str, Any]:
        """Returns when the attempt may start, with fields for its line; `leave` may add to them."""
        ...

    def leave(self) -> None:
        """Called once after each `enter`."""
        ...


@dataclass(slots=True)
class Attempts:
    """Shared by all workers of a run."""

    http: HttpClient
    targets: Targets
    options: AttemptOptions
    in_flight: int = 0
    retries: int = 0
    breakers: dict[str, CircuitBreaker] = field(default_factory=dict)
    unread: bool = False  # long arrays of the replies' items may stay bytes, which only our own code knows of
    run_id: str = field(default_factory=lambda: secrets.token_hex(4))
    _stopped: asyncio.Event = field(default_factory=asyncio.Event)
    _timeout: Header = field(init=False)
    _connection_timeout: float = field(init=False)  # a little later than the deadline that the server is sent

    def __post_init__(self) -> None:
        seconds = self.options.timeout
        self._timeout = (HEADER_TIMEOUT.encode(), b"%.3f" % seconds)
        self._connection_timeout = seconds + min(seconds, _GRACE_SECONDS)

    def open(self, on_pause: Callable[[str, str], None]) -> None:
        """`on_pause` gets the agent and the reason; the reason is empty when the agent goes on."""
        for agent in self.targets.agents:
            self.breakers[agent] = CircuitBreaker(
                agent,
                first_wait=self.options.backoff * 2,
                max_pause=self.options.max_pause,
                on_change=on_pause,
            )

    async def end_pauses(self) -> None:
        """Runs beside the workers; raises `GaveUp`."""
        async with asyncio.TaskGroup() as group:
            for breaker in self.breakers.values():
                group.create_task(breaker.end_pauses(self.targets.probe))

    def stop(self) -> None:
        """No attempt starts from now on; those under way go on."""
        self._stopped.set()
        for breaker in self.breakers.values():
            breaker.stop()

    @property
    def paused_reason(self) -> str:
        return "; ".join(one.reason for one in self.breakers.values() if one.reason)

    async def run(self, task: Task, limit: StartLimit | None = None, *, tries: int = 0) -> TaskResult | None:
        """None when the run stopped first: a resume does it. `tries` is the number of earlier attempts."""
        breaker = self.breakers[task.agent]
        attempt = self._attempt if TRACING.tracer is None else self._attempt_traced
        failures = 0
        taken = time.monotonic()
        while True:
            notes: Mapping[str, Any] | None = None
            if (limit is not None or not breaker.admits) and (notes := await _admit(breaker, limit)) is None:
                return None
            tries += 1
            number = breaker.begin(task.key)
            stack, digest = self.targets.stack, self.targets.digests.get(task.agent, "")
            started, clock = time.time(), time.monotonic()
            try:
                rolled, failure, facts = await attempt(task, tries)
            except asyncio.CancelledError:
                breaker.cancel(number)
                raise
            finally:
                if limit is not None:
                    limit.leave()
            seconds, queued = time.monotonic() - clock, clock - taken
            facts.update(notes or {})
            how = AttemptInfo(tries, started, seconds, queued, stack, digest[:16], facts)
            counts = breaker.record(number, failure)
            if failure is None:
                return TaskResult(rolled, None, how)
            failures += counts
            if counts and (not failure.retryable or failures >= self.options.max_attempts):
                return TaskResult(None, failure, how)
            self.retries += 1
            if counts:
                await self._back_off(failures)
            if self._stopped.is_set():
                return None

    async def _attempt_traced(
        self, task: Task, number: int
    ) -> tuple[VerifiedRollout | None, RolloutError | None, dict[str, Any]]:
        """Below a span of its own, the root of the attempt's trace; the line names the trace."""
        assert TRACING.tracer is not None
        shown = {
            "gym.run.id": self.run_id,
            "gym.rollout.id": self._rollout_id(task, number),
            "gym.agent": task.agent,
            "gym.task.index": task.task_index,
            "gym.repeat.index": task.rollout_index,
            "gym.attempt": number,
        }
        with TRACING.tracer.span(f"rollout {task.agent}", "internal", shown, caller=()) as span:
            rolled, failure, facts = await self._attempt(task, number)
            if rolled is not None:
                tokens = rolled.origin.get("tokens") or {}
                span.set({"gym.reward": rolled.reward, **{f"gym.tokens.{one}": tokens[one] for one in tokens}})
            if failure is not None:
                span.set({"gym.failure.kind": failure.kind, "gym.failure.server": failure.server})
                span.fail(failure.kind, failure.message)
            return rolled, failure, {**facts, "trace": span.trace_id}

    async def _attempt(
        self, task: Task, number: int
    ) -> tuple[VerifiedRollout | None, RolloutError | None, dict[str, Any]]:
        """A rollout or a failure, and the facts in the reply's headers."""
        facts: dict[str, Any] = {}
        self.in_flight += 1
        try:
            reply = await self._send(task, number)
            facts = describe_headers(reply)
            return without_key(read_reply(reply, task.agent, unread=self.unread), task.secret), None, facts
        except NotKept:
            return None, None, facts
        except RolloutError as failure:
            return None, without_key_in_failure(failure, task.secret), facts
        finally:
            self.in_flight -= 1

    async def _send(self, task: Task, number: int) -> Reply:
        """Tries one replica after another until one has received a byte; after that no other."""
        tried: list[AgentReplica] = []
        body, last = task.body, ""
        headers = ((_ROLLOUT, self._rollout_id(task, number).encode()), self._timeout)
        while (replica := self.targets.pick(task.agent, tried)) is not None:
            try:
                return await self._post(replica, body, headers)
            except NotSent as error:
                self.targets.avoid(replica)
                tried.append(replica)
                last = str(error)
            except TimeoutError:
                what = f"no answer within {self.options.timeout:g} s"
                raise RolloutError("timeout", what, server=task.agent) from None
            except OSError as error:
                self.targets.avoid(replica)
                raise RolloutError("agent", f"the connection was lost: {error}", server=task.agent) from error
        raise RolloutError("agent", f"cannot be reached: {last}", server=task.agent)

    async def _post(self, replica: AgentReplica, body: bytes, headers: tuple[Header, ...]) -> Reply:
        if replica.vanished:
            raise NotSent("it vanished or hangs, and its stack still gets no sign of it")
        replica.in_flight += 1
        replica.served += 1
        headers += replica.headers
        deadline = 0.0
        try:
            while True:
                request = self.http.request(
                    "POST", replica.run_url, body=body, headers=headers, timeout=self._connection_timeout
                )
                reply = await (replica.wait_for(request) if replica.id else request)
                if not has_no_route(reply.status, reply.body):
                    if replica.id and _is_routers_own(reply):
                        self.targets.avoid(replica)
                    return reply
                deadline = deadline or time.monotonic() + _ROUTER_STARTS_SECONDS
                if replica.id or time.monotonic() >= deadline:  # other replicas may have one
                    raise NotSent("the router has no route to it")
                await asyncio.sleep(_ROUTER_RETRY_SECONDS)  # it has just started: no agent has received the row
        finally:
            replica.in_flight -= 1

    def _rollout_id(self, task: Task, number: int) -> str:
        return f"{self.run_id}-{task.task_index}-{task.rollout_index}" + (f"-a{number}" if number > 1 else "")

    async def _back_off(self, failures: int) -> None:
        delay = min(self.options.backoff * 2 ** (failures - 1), _MAX_BACKOFF) * random.uniform(0.5, 1.5)
        try:
            async with asyncio.timeout(delay):
                await self._stopped.wait()
        except TimeoutError:
            return


async def _admit(breaker: CircuitBreaker, limit: StartLimit | None) -> Mapping[str, Any] | None:
    """None when the run has stopped. An attempt that finds the breaker open leaves the limit while it waits."""
    if limit is None:
        return {} if await breaker.admit() else None
    while True:
        notes = await limit.enter()
        if breaker.admit_now():
            return notes
        limit.leave()
        if not await breaker.wait_for_change():
            return None


def _is_routers_own(reply: Reply) -> bool:
    """The router did not reach the replica, or lost it: an agent's own failure names its kind in a header."""
    return reply.status in (502, 503, 504) and reply.header(HEADER_ERROR.encode()) is None
