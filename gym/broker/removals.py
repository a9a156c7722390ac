"""Removes sandboxes: each removal is retried until the engine has done it, and /status shows those that fail."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

from gym.broker.admission import Admission
from gym.broker.audit_log import Audit
from gym.broker.background import BackgroundTasks
from gym.broker.meters import Meters
from gym.broker.provider import ProviderSandbox

log = logging.getLogger("gym.broker")
FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.25, 15.0


@dataclass(slots=True)
class PendingRemoval:
    why: str
    tries: int = 0
    error: str = ""


class Removals:
    def __init__(self, admission: Admission, tasks: BackgroundTasks, audit: Audit, meters: Meters) -> None:
        self._admission = admission
        self._tasks = tasks
        self._audit = audit
        self._meters = meters
        self._pending: dict[str, PendingRemoval] = {}
        self._running: dict[str, asyncio.Task[bool]] = {}

    def begin(self, sandbox: ProviderSandbox, why: str) -> asyncio.Task[bool]:
        """The removal goes on whether or not the task is awaited."""
        running = self._running.get(sandbox.tags.id)
        if running is None:
            self._pending[sandbox.tags.id] = PendingRemoval(why)
            running = self._tasks.spawn(self._remove(sandbox, why), f"remove {sandbox.tags.id}")
            self._running[sandbox.tags.id] = running
        return running

    async def settled(self, seconds: float) -> bool:
        """True when all removals are done within `seconds`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while self._running and (left := deadline - loop.time()) > 0:
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

    async def _remove(self, sandbox: ProviderSandbox, why: str) -> bool:
        tags, pending = sandbox.tags, self._pending[sandbox.tags.id]
        loop = asyncio.get_running_loop()
        began, retry_delay = loop.time(), FIRST_RETRY_SECONDS
        try:
            while not await self._try(sandbox, pending):
                await asyncio.sleep(retry_delay)
                retry_delay = min(retry_delay * 2, MAX_RETRY_SECONDS)
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

    async def _try(self, sandbox: ProviderSandbox, pending: PendingRemoval) -> bool:
        pending.tries += 1
        try:
            async with self._admission.slot_for(sandbox.tags.rollout, float("inf")):
                await sandbox.remove()
        except Exception as error:  # noqa: BLE001 (whatever it was: a sandbox that stays is worse than another try)
            pending.error = f"{type(error).__name__}: {error}"
            self._meters.count("remove", "failed")
            log.warning("sandbox %s could not be removed (try %d): %s", sandbox.tags.id, pending.tries, pending.error)
            return False
        return True
