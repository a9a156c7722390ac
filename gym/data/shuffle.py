"""Lines in an order that a seed decides, however many there are: beyond 64 MB they wait in files on the disk."""

from __future__ import annotations

import random
import struct
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

_IN_MEMORY = 64 << 20
_BITS = 8  # 256 files: each has a 256th part, and is read whole
_HEAD = struct.Struct("<QQ")
_BUFFER = 64 << 10


def shuffle_lines(lines: Iterable[bytes], seed: int, folder: Path, *, in_memory: int = _IN_MEMORY) -> Iterator[bytes]:
    """Each line draws a key, and the lines come out by their keys: every order is equally likely.

    Which line draws which key depends on the seed and the order they come in, not on `in_memory` or the machine.
    """
    draw = random.Random(seed)
    waiting: list[tuple[int, bytes]] = []
    size = 0
    lines = iter(lines)
    for line in lines:
        waiting.append((draw.getrandbits(64), line))
        size += len(line) + 100
        if size > in_memory:
            yield from _shuffle_on_disk(waiting, lines, draw, folder)
            return
    yield from _ordered(waiting)


def _shuffle_on_disk(
    waiting: list[tuple[int, bytes]], lines: Iterable[bytes], draw: random.Random, folder: Path
) -> Iterator[bytes]:
    with tempfile.TemporaryDirectory(prefix=".shuffle-", dir=folder) as scratch:
        paths = [Path(scratch) / str(index) for index in range(1 << _BITS)]
        with ExitStack() as stack:
            files = [stack.enter_context(path.open("wb", buffering=_BUFFER)) for path in paths]
            for key, line in waiting:
                _put(files, key, line)
            waiting.clear()
            for line in lines:
                _put(files, draw.getrandbits(64), line)
        for path in paths:
            yield from _ordered(list(_take(path)))
            path.unlink()


def _put(files: list[BinaryIO], key: int, line: bytes) -> None:
    file = files[key >> (64 - _BITS)]
    file.write(_HEAD.pack(key, len(line)))
    file.write(line)


def _take(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        while head := file.read(_HEAD.size):
            key, size = _HEAD.unpack(head)
            yield key, file.read(size)


def _ordered(waiting: list[tuple[int, bytes]]) -> Iterator[bytes]:
    waiting.sort(key=lambda one: one[0])
    return (line for _, line in waiting)
