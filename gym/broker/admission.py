"""Limits concurrent calls to the engine: additive increase, multiplicative decrease, and a fair queue before it.

Rollouts take turns; within one the order is first in, first out. A request that cannot be served before its deadline
fails at once.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from gym.broker.errors import Busy, is_engine_fault
from gym.http.tracing import TRACING
from gym.server.aimd import Aimd

PERIOD = 60  # visits until the limit is back where the engine showed strain
SMOOTHING = 0.1


@dataclass(slots=True)
class AdmissionSlot:
    """One call to the engine. `seconds` is the time the engine took, where that is less than the call lasted."""

    began: float
    number: int
    seconds: float | None = None


class Admission:
    def __init__(self, what: str, *, max_limit: int, queue: int, slow: float, min_limit: int = 1) -> None:
        self.what = what
        self._aimd = Aimd(float(max_limit), least=float(min_limit), proof=1, period=PERIOD)
        self._queue = queue
        self._slow = slow  # seconds of one visit that mean strain
        self._in_flight = 0
        self._lanes: OrderedDict[str, OrderedDict[asyncio.Future[None], None]] = OrderedDict()
        self._waiting = 0
        self._service = 0.0  # smoothed seconds of a visit
        self.refused = 0

    @property
    def cuts(self) -> int:
        return self._aimd.cuts

    @asynccontextmanager
    async def slot_for(self, lane: str, deadline: float) -> AsyncIterator[AdmissionSlot]:
        """`lane` is the rollout; `ends` the loop's time at which the caller stops waiting for a slot."""
        asked = asyncio.get_running_loop().time()
        await self._enter(lane, deadline)
        slot = self._begin()
        if TRACING.tracer is not None:
            TRACING.tracer.annotate({"gym.sandbox.waited": round(slot.began - asked, 6)})
        strained = False
        try:
            yield slot
        except BaseException as error:
            strained = is_engine_fault(error)
            raise
        finally:
            self._leave(slot, strained=strained)

    def try_enter(self) -> AdmissionSlot | None:
        """A slot for work that can wait, only when no request waits for one; give it back with `leave`."""
        if self._waiting or self._in_flight >= max(self._aimd.limit - 1, 1):
            return None
        self._in_flight += 1
        return self._begin()

    def leave(self, slot: AdmissionSlot, *, strained: bool = False) -> None:
        self._leave(slot, strained=strained)

    def wait_estimate(self) -> float:
        return self._service * (self._waiting + 1) / max(self._aimd.limit, 1.0)

    def status(self) -> dict[str, Any]:
        return {
            "limit": round(self._aimd.limit, 1),
            "most": int(self._aimd.max_limit),
            "in_flight": self._in_flight,
            "waiting": self._waiting,
            "seconds": round(self._service, 4),
            "refused": self.refused,
            "cuts": self.cuts,
        }

    def _begin(self) -> AdmissionSlot:
        return AdmissionSlot(asyncio.get_running_loop().time(), self._aimd.start())

    async def _enter(self, lane: str, deadline: float) -> None:
        if not self._waiting and self._has_room():
            self._in_flight += 1
            return
        estimate = self.wait_estimate()
        left = deadline - asyncio.get_running_loop().time()
        if self._waiting >= self._queue:
            self.refused += 1
            raise Busy(f"{self._waiting} requests to {self.what} are already waiting", estimate or 1.0)
        if estimate > 2 * left:  # an estimate is not a promise: only a hopeless request fails at once
            self.refused += 1
            raise Busy(f"to {self.what} takes a wait of about {estimate:.0f} s, longer than the deadline", estimate)
        await self._wait(lane, deadline)

    async def _wait(self, lane: str, deadline: float) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lanes.setdefault(lane, OrderedDict())[turn] = None
        self._waiting += 1
        try:
            async with asyncio.timeout_at(deadline):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():  # the slot was given at the moment of the timeout
                self._in_flight -= 1
                self._wake()
            else:
                self._forget(lane, turn)
            if isinstance(error, TimeoutError):
                self.refused += 1
                raise Busy(f"no turn to {self.what} came before the deadline", self.wait_estimate() or 1.0) from None
            raise

    def _forget(self, lane: str, turn: asyncio.Future[None]) -> None:
        queue = self._lanes.get(lane)
        if queue is not None and turn in queue:
            del queue[turn]
            self._waiting -= 1
            if not queue:
                del self._lanes[lane]

    def _leave(self, slot: AdmissionSlot, *, strained: bool) -> None:
        now = asyncio.get_running_loop().time()
        seconds = now - slot.began if slot.seconds is None else slot.seconds
        self._service += (seconds - self._service) * (SMOOTHING if self._service else 1.0)
        self._aimd.observe(slot.number, "refused" if strained or seconds > self._slow else "done", self._in_flight)
        self._in_flight -= 1
        self._wake()

    def _has_room(self) -> bool:
        return self._in_flight < max(int(self._aimd.limit), 1)

    def _wake(self) -> None:
        while self._waiting and self._has_room():
            lane, queue = next(iter(self._lanes.items()))
            turn, _ = queue.popitem(last=False)
            self._waiting -= 1
            if queue:
                self._lanes.move_to_end(lane)  # the next turn is another rollout's
            else:
                del self._lanes[lane]
            if not turn.done():
                self._in_flight += 1
                turn.set_result(None)
