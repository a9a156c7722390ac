"""A long body is read by the kernel into the memory that it stays in, past the parser: no pieces, no copies of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from io import BytesIO
from typing import Final, Protocol

MIN_REST: Final = 64 * 1024  # less of a body than this may as well be parsed
FIRST: Final = 1 << 20  # what a length alone can make us hold; then four times what has come
GROWTH: Final = 4


class Parsing(Protocol):
    """The protocol of a connection, for as long as its parser does not see what comes."""

    def data_received(self, data: bytes) -> None: ...

    def eof_received(self) -> bool | None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


class DirectBody(asyncio.BufferedProtocol):
    """Takes the place of a connection's protocol until the whole body has come, and gives the place back."""

    def __init__(
        self, transport: asyncio.Transport, parsing: Parsing, begun: bytes, length: int, on_whole: Callable[[], None]
    ) -> None:
        """`begun` has come already. `on_whole` may not `take` the body yet: its memory is in use until later."""
        self._transport, self._parsing, self._on_whole = transport, parsing, on_whole
        self._come, self._length = len(begun), length
        self._memory = BytesIO(begun)
        self._room = len(begun)
        self._switch(self)

    @property
    def whole(self) -> bool:
        return self._come >= self._length

    def take(self) -> bytes:
        self._memory.truncate(self._length)
        return self._memory.getvalue()  # no copy

    def get_buffer(self, sizehint: int) -> memoryview:
        """One byte more than is missing: a peer that sends more than a body is noticed at once, as a parser would."""
        if self._come == self._room:
            self._room = min(self._length + 1, max(FIRST, GROWTH * self._come))
            self._memory.seek(self._room - 1)
            self._memory.write(b"\0")
        return self._memory.getbuffer()[self._come :]

    def buffer_updated(self, nbytes: int) -> None:
        self._come += nbytes
        if self.whole:
            more = bytes(self._memory.getbuffer()[self._length : self._come])
            self._switch(self._parsing)  # type: ignore[arg-type]  # (uvicorn's and ours are such protocols)
            self._on_whole()
            if more:
                self._parsing.data_received(more)

    def eof_received(self) -> bool | None:
        return self._parsing.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._parsing.connection_lost(exc)

    def pause_writing(self) -> None:
        self._parsing.pause_writing()

    def resume_writing(self) -> None:
        self._parsing.resume_writing()

    def _switch(self, protocol: asyncio.BaseProtocol) -> None:
        """Event loops choose how they read when reading begins."""
        self._transport.pause_reading()
        self._transport.set_protocol(protocol)
        self._transport.resume_reading()


def missing_length(headers: Iterable[tuple[bytes, bytes]], come: int) -> int:
    """The length of a body of which enough is missing; 0 where it is parsed to its end. Names are in lower case."""
    length = 0
    for name, value in headers:
        if name == b"content-length":
            length = int(value)
        elif name == b"transfer-encoding":
            return 0
    return length if length - come >= MIN_REST else 0
