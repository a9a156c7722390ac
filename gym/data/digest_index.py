"""Rows that are the same in some respect, found over any number of rows: their digests wait in files on the disk."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

_RECORD = struct.Struct("<16sQ")
_PARTS = 64
_BUFFER = 256 << 10  # of a part, before it goes to its file


class DigestIndex:
    """Takes (digest, place) pairs; gives the places that share a digest. `folder` is the caller's to remove."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._parts = [bytearray() for _ in range(_PARTS)]

    def add(self, digest: bytes, place: int) -> None:
        index = digest[0] % _PARTS
        part = self._parts[index]
        part += _RECORD.pack(digest, place)
        if len(part) >= _BUFFER:
            with self._path(index).open("ab") as file:
                file.write(part)
            part.clear()

    def groups(self) -> Iterator[list[int]]:
        """Two places or more that share a digest, in their order."""
        for index in range(_PARTS):
            places: dict[bytes, list[int]] = {}
            for digest, place in _RECORD.iter_unpack(self._read(index)):
                places.setdefault(digest, []).append(place)
            yield from (sorted(group) for group in places.values() if len(group) > 1)

    def _read(self, index: int) -> bytes:
        path = self._path(index)
        return (path.read_bytes() if path.is_file() else b"") + bytes(self._parts[index])

    def _path(self, index: int) -> Path:
        return self._folder / f"digests-{index}"
