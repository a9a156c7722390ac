"""uvicorn's server, ended as soon as nothing is in flight.

uvicorn itself looks ten times a second whether it is to stop, then waits a tenth of a second, idle or not, and looks
again ten times a second whether the last request is done: 0.2 s for each server that stops, and ten wake-ups a second
for each that is idle.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Final

import uvicorn

log = logging.getLogger("gym.server")

TICK_SECONDS: Final = 1.0  # the header `date` counts seconds
LOOK_SECONDS: Final = 0.01


class PromptServer(uvicorn.Server):
    _wake: Callable[[], object] | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if self._wake is not None:
            self._wake()

    async def main_loop(self) -> None:
        loop, asked = asyncio.get_running_loop(), asyncio.Event()
        self._wake = lambda: loop.call_soon_threadsafe(asked.set)
        while not await self.on_tick(0):
            await _within(TICK_SECONDS, asked.wait)
        self._wake = None

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for listening in self.servers:
            listening.close()
        for one in sockets or ():
            one.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()  # an idle one is closed, another one after its answer
        if not await _within(self.config.timeout_graceful_shutdown, self._finish):
            log.error("%d requests took longer than the time to stop: they are cut off", len(self.server_state.tasks))
            for task in self.server_state.tasks:
                task.cancel(msg="the server stops")
        if not self.force_exit:
            await self.lifespan.shutdown()

    async def _finish(self) -> None:
        state, pause = self.server_state, 0.0
        while (state.connections or state.tasks) and not self.force_exit:
            await asyncio.sleep(pause)
            pause = LOOK_SECONDS


async def _within(seconds: float | None, wait: Callable[[], Awaitable[object]]) -> bool:
    """Whether it came to its end in time."""
    try:
        async with asyncio.timeout(seconds):
            await wait()
    except TimeoutError:
        return False
    return True
