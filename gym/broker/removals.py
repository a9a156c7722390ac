"""A removal that was begun is not given up: it is tried again until the engine has done it, and /status shows it."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from gym.broker.admission import Gate
from gym.broker.audit import Audit
from gym.broker.background import Tasks
from gym.broker.meters import Meters
from gym.broker.provider import Held

log = logging.getLogger("gym.broker")
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 15.0


@dataclass(slots=True)
class Pending:
    why: str
    tries: int = 0
    error: str = ""


class Removals:
    def __init__(self, gate: Gate, tasks: Tasks, audit: Audit, meters: Meters) -> None:
        self._gate = gate
        self._tasks = tasks
        self._audit = audit
        self._meters = meters
        self._pending: dict[str, Pending] = {}
        self._running: dict[str, asyncio.Task[bool]] = {}

    def begin(self, held: Held, why: str) -> asyncio.Task[bool]:
        """Await it, or do not: it goes on."""
        running = self._running.get(held.tags.id)
        if running is None:
            self._pending[held.tags.id] = Pending(why)
            running = self._tasks.spawn(self._remove(held, why), f"remove {held.tags.id}")
            self._running[held.tags.id] = running
        return running

    async def settled(self, seconds: float) -> bool:
        """Are all done within so long?"""
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        while self._running and (left := ends - loop.time()) > 0:
            await asyncio.wait(tuple(self._running.values()), timeout=left)
        return not self._running

    def ids(self) -> frozenset[str]:
        return frozenset(self._pending)

    def status(self) -> dict[str, Any]:
        stuck = {
            sandbox: {"why": one.why, "tries": one.tries, "error": one.error}
            for sandbox, one in self._pending.items()
            if one.error
        }
        return {"pending": len(self._pending), "failing": dict(list(stuck.items())[:50])}

    async def _remove(self, held: Held, why: str) -> bool:
        tags, pending = held.tags, self._pending[held.tags.id]
        loop = asyncio.get_running_loop()
        began, pause = loop.time(), FIRST_PAUSE
        try:
            while not await self._try(held, pending):
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
        finally:
            self._pending.pop(tags.id, None)
            self._running.pop(tags.id, None)
        seconds = loop.time() - began
        self._meters.count("remove")
        self._meters.time("remove", seconds)
        self._audit.note(
            "remove", sandbox=tags.id, instance=tags.instance, rollout=tags.rollout, why=why, seconds=seconds
        )
        return True

    async def _try(self, held: Held, pending: Pending) -> bool:
        pending.tries += 1
        try:
            async with self._gate.place(held.tags.rollout, float("inf")):
                await held.remove()
        except Exception as error:  # noqa: BLE001 (whatever it was: a sandbox that stays is worse than another try)
            pending.error = f"{type(error).__name__}: {error}"
            self._meters.count("remove", "failed")
            log.warning("sandbox %s could not be removed (try %d): %s", held.tags.id, pending.tries, pending.error)
            return False
        return True
