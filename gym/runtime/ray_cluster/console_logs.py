"""What replicas of a stack on Ray have logged, on its way to the stack's console.

Runs in Ray's own Python, too, into which it is sent by value: the standard library is all that it may import.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LOGS_EACH_STEP = 8  # of a hundred replicas that all write, each is read in five seconds
LOG_LINES = 1000  # the console is sent at first, as many as it shows


class ConsoleLogs:
    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._offsets: dict[str, int] = {}  # as far as the console has been sent it
        self._reads: dict[str, tuple[Any, bool]] = {}  # what was asked for, and whether from its beginning
        self._shown_by: int | None = None  # the pid of the console that has the logs

    def carry(self, actors: Mapping[str, Any], seen: Mapping[str, Mapping[str, Any]]) -> None:
        """What replicas have logged goes to the console, a few of them at a time. Ray keeps all of it."""
        console, shown_by = actors.get("console"), seen.get("console", {}).get("pid")
        if console is None or not shown_by:
            return
        if shown_by != self._shown_by:
            self._shown_by = shown_by
            self._offsets.clear()
            self._reads.clear()
        offsets = self._offsets
        last = {id: number for number, id in enumerate(offsets)}  # the one that was read longest ago is the first
        read = sorted(actors, key=lambda id: last.get(id, -1))
        grown = [id for id in read if seen.get(id, {}).get("logged", 0) != offsets.get(id, 0)]
        for id in [one for one in grown if one not in self._reads][: LOGS_EACH_STEP - len(self._reads)]:
            offsets[id] = offsets.pop(id, -1)
            self._reads[id] = (actors[id].read_log.remote(offsets[id], LOG_LINES), offsets[id] < 0)
        for id, (ref, fresh) in list(self._reads.items()):
            ready, _ = self._ray.wait([ref], timeout=0)
            if ready:
                del self._reads[id]
                offsets[id], text = self._ray.get(ref)
                if text:
                    console.take_log.remote(id, text, fresh)

    def forget(self, id: str) -> None:
        """Of a replica that is gone."""
        self._offsets.pop(id, None)
        self._reads.pop(id, None)
