"""Tells the stack's console how a collection is getting on, so that its page can show it. Nothing waits for it."""

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
_MISSING = frozenset({404, 405})  # a console of an older version: it need not be asked again


class ProgressReport:
    """One collection's voice. `shine` beside the workers, `end` behind them."""

    def __init__(self, targets: Targets, id: str, output: Path, look: Callable[[], Progress]) -> None:
        self._targets = targets
        self._who = {"id": id, "output": output.name[:200], "host": socket.gethostname()[:200], "pid": os.getpid()}
        self._look = look
        self._asked = False

    async def shine(self) -> None:
        while True:
            self._asked = True  # one that is cut off may have been heard
            if await self._tell() in _MISSING:
                self._asked = False
                return
            await asyncio.sleep(_EVERY_SECONDS)

    async def end(self) -> None:
        if self._asked:
            await self._tell(ended=True)

    async def _tell(self, **more: Any) -> int:
        progress = self._look().to_dict()
        progress["paused_reason"] = progress["paused_reason"][:500]
        return await self._targets.tell("/collections", orjson.dumps({**self._who, "progress": progress, **more}))
