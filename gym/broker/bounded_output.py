"""The head and the tail of a stream within a bound, and how much of its middle is gone."""

from __future__ import annotations

from gym.wire.sandbox import Output


class BoundedOutput:
    def __init__(self, max_bytes: int) -> None:
        self._half = max(max_bytes // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()  # not pieces: of a byte each they would take fifty times as much
        self.dropped = 0

    def add(self, data: bytes) -> None:
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail += data
        if len(self._tail) > 2 * self._half:
            self._trim()

    def output(self) -> Output:
        self._trim()
        return Output(head=bytes(self._head), tail=bytes(self._tail), dropped=self.dropped)

    def _trim(self) -> None:
        over = max(len(self._tail) - self._half, 0)
        del self._tail[:over]
        self.dropped += over
