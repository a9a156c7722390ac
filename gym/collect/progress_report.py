"""Sends the progress of a collection to the stack's console, for its page. Nothing waits for it."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from gym.collect.events import Progress
from gym.collect.targets import Targets

_EVERY_SECONDS = 2.0
_MISSING = frozenset({404, 405})  # a console of an older version: no further reports


class ProgressReport:
    """The reports of one collection: `send_regularly` beside the workers, `send_end` after them."""

    def __init__(self, targets: Targets, id: str, output: Path, progress: Callable[[], Progress]) -> None:
        self._targets = targets
        self._who = {"id": id, "output": output.name[:200], "host": socket.gethostname()[:200], "pid": os.getpid()}
        self._progress = progress
        self._sent = False

    async def send_regularly(self) -> None:
        while True:
            self._sent = True  # a cancelled report may have arrived
            if await self._send() in _MISSING:
                self._sent = False
                return
            await asyncio.sleep(_EVERY_SECONDS)

    async def send_end(self) -> None:
        if self._sent:
            await self._send(ended=True)

    async def _send(self, **more: Any) -> int:
        progress = self._progress().to_dict()
        progress["paused_reason"] = progress["paused_reason"][:500]
        body = orjson.dumps({**self._who, "progress": progress, **more})
        reply = await self._targets.ask_console("/collections", body)
        return reply.status if reply else 0
