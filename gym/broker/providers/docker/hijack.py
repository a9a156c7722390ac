"""Connections to the engine that turn into the pipes of a container: stdin as it is, stdout and stderr in frames."""

from __future__ import annotations

import asyncio
import struct
from typing import Final

from gym.broker.providers.upgraded_pipe import UpgradedPipe

FRAME: Final = struct.Struct(">BxxxL")  # the engine's: stream, length
KEPT_OPENING: Final = 512


class Attached(UpgradedPipe):
    SWITCHED = (101, 200)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._frame = bytearray()  # the beginning of one
        self._stream, self._left = 0, 0
        self._opening = bytearray()

    @property
    def writer(self) -> asyncio.StreamWriter:
        return self.stream_writer

    @property
    def opening(self) -> str:
        """The first of what came on stdout: an engine that cannot start an exec says so there."""
        return self._opening.decode("utf-8", "replace").strip()

    def receive(self, data: bytes) -> None:
        """Frames of the engine may come in any pieces."""
        view = memoryview(data)
        while view:
            if self._left:
                part, view = view[: self._left], view[self._left :]
                self._left -= len(part)
                self._take(part)
                continue
            missing = FRAME.size - len(self._frame)
            self._frame += view[:missing]
            view = view[missing:]
            if len(self._frame) == FRAME.size:
                self._stream, self._left = FRAME.unpack(self._frame)
                self._frame.clear()

    def _take(self, part: memoryview) -> None:
        if self._stream == 1:
            self._opening += part[: max(0, KEPT_OPENING - len(self._opening))]
            self.reader.feed_data(bytes(part))
        else:
            self.keep_words(part)
