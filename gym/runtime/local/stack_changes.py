"""Changes of a running stack: published once for however many come at once, and then announced to those who wait."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

log = logging.getLogger("gym.supervisor")


class StackChanges:
    """`publish` writes what readers of the stack's files see."""

    def __init__(self, publish: Callable[[], None]) -> None:
        self._publish = publish
        self._dirty = asyncio.Event()
        self._changed = asyncio.Condition()

    def note(self) -> None:
        """Something has changed."""
        self._dirty.set()

    async def next(self, timeout: float) -> None:
        """Returns when the next change is published, or after `timeout` seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout), self._changed:
                await self._changed.wait()

    async def publish_for_ever(self) -> None:
        """Readers of the stack's files see a change within milliseconds, however many come at once."""
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            try:
                self._publish()
            except OSError as error:  # a full disk must not end what runs
                log.error("the stack's state could not be published: %s", error)
                self._dirty.set()
                await asyncio.sleep(1)
            async with self._changed:
                self._changed.notify_all()
            await asyncio.sleep(0.02)
