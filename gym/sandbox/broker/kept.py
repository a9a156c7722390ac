"""The head and the tail of a stream within a bound, and how much of its middle is gone."""

from __future__ import annotations

from collections import deque

from gym.wire.sandbox import Output


class Kept:
    def __init__(self, most: int) -> None:
        self._half = max(most // 2, 1)
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.dropped = 0

    def add(self, data: bytes) -> None:
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size > self._half:
            extra = self._tail_size - self._half
            first = self._tail.popleft()
            if len(first) > extra:
                self._tail.appendleft(first[extra:])
            gone = min(extra, len(first))
            self._tail_size -= gone
            self.dropped += gone

    def output(self) -> Output:
        return Output(head=bytes(self._head), tail=b"".join(self._tail), dropped=self.dropped)
