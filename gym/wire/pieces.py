"""A long body in the pieces that it is put together from: none of them is copied before the kernel does it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

JOINED: Final = 64 * 1024  # a shorter body is one piece: to write it at once saves more than a copy costs
Piece = bytes | memoryview


class Pieces(tuple[Piece, ...]):
    __slots__ = ()

    @property
    def size(self) -> int:
        return sum(map(len, self))


Body = bytes | Pieces


def to_body(pieces: Iterable[Piece]) -> Body:
    body = Pieces(filter(len, pieces))
    return body if len(body) > 1 and body.size > JOINED else b"".join(body)


def body_size(body: Body) -> int:
    return len(body) if isinstance(body, bytes) else body.size


def join_body(body: Body) -> bytes:
    return body if isinstance(body, bytes) else b"".join(body)
