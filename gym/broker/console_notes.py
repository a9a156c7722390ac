"""What the broker tells the console of its stack, as files: how its sandboxes are, which containers it restarted."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from gym.broker.service import Broker
from gym.files import read_document
from gym.wire.stack_names import SANDBOX_NOTES
from gym.wire.stack_notes import REPLICAS, ReplicaNote, ReplicaNotes, SandboxNotes, write_note

EVERY_SECONDS: Final = 2.0
log = logging.getLogger("gym.broker")


class ConsoleNotes:
    """`tell` gets what happens to containers, and passes it on to the listener that was there before."""

    def __init__(self, folder: Path, tell: Callable[..., None]) -> None:
        self._folder = folder
        self._tell = tell
        known = read_document(ReplicaNotes, folder / REPLICAS)
        self._replicas = dict(known.root) if known else {}

    def tell(self, event: str, **facts: Any) -> None:
        self._tell(event, **facts)
        if event == "start_again":
            name, why = str(facts.get("container", "")), str(facts.get("why", ""))
            before = self._replicas.get(name, ReplicaNote())
            self._replicas[name] = ReplicaNote(restarts=before.restarts + 1, why=why, at=time.time())
            self._write(REPLICAS, ReplicaNotes(self._replicas))

    async def run(self, broker: Broker) -> None:
        """Until cancelled."""
        while True:
            self._write(SANDBOX_NOTES, sandbox_notes(broker))
            await asyncio.sleep(EVERY_SECONDS)

    def _write(self, name: str, note: ReplicaNotes | SandboxNotes) -> None:
        try:
            write_note(self._folder / name, note)
        except OSError as error:
            log.debug("the console could not be reached: %s", error)


def sandbox_notes(broker: Broker) -> SandboxNotes:
    creates = broker.creates.status()
    return SandboxNotes(
        provider=broker.provider.name,
        alive=len(broker.registry),
        warm=sum(pool["ready"] for pool in broker.warm.status()),
        waiting=creates["waiting"],
        at_once=int(creates["limit"]),
        breaker=broker.breaker.state,
        at=time.time(),
    )
