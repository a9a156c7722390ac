"""A rollout's key, `<row digest>:<repeat>`, and a table of millions of digests at 16 bytes a slot.

A million distinct rows cost 34 MB here and 50 while it grows (a dict of integers: 105 MB); among them 64 bits clash
with a chance of 3e-8.
"""

from __future__ import annotations

import hashlib
from array import array

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_GOLDEN = 0x9E37_79B9_7F4A_7C15  # spreads repeats of one row over the table


def row_digest(line: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(line, digest_size=8).digest(), "big")


def format_key(digest: int, repeat: int) -> str:
    return f"{digest:016x}:{repeat}"


def parse_key(text: str) -> tuple[int, int]:
    digest, _, repeat = text.partition(":")
    return int(digest, 16), int(repeat)


class DigestMap:
    """64-bit keys to 64-bit values, open addressing in two arrays."""

    def __init__(self) -> None:
        self._keys = _zeros(1024)
        self._values = _zeros(1024)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def get(self, key: int) -> int | None:
        slot = _slot(self._keys, key or 1)
        return self._values[slot] if self._keys[slot] else None

    def set(self, key: int, value: int) -> None:
        slot = _slot(self._keys, key or 1)
        if not self._keys[slot]:
            self._keys[slot] = key or 1
            self._count += 1
        self._values[slot] = value
        if self._count * 3 > len(self._keys) * 2:
            self._grow()

    def _grow(self) -> None:
        keys, values = self._keys, self._values
        self._keys, self._values = _zeros(2 * len(keys)), _zeros(2 * len(keys))
        for key, value in zip(keys, values, strict=True):
            if key:
                slot = _slot(self._keys, key)
                self._keys[slot], self._values[slot] = key, value


class DoneKeys:
    """The keys that need no more work."""

    def __init__(self) -> None:
        self._map = DigestMap()

    def __len__(self) -> int:
        return len(self._map)

    def add(self, digest: int, repeat: int) -> bool:
        """False when it was there already."""
        mixed = _mix(digest, repeat)
        if self._map.get(mixed) is not None:
            return False
        self._map.set(mixed, 0)
        return True

    def has(self, digest: int, repeat: int) -> bool:
        return self._map.get(_mix(digest, repeat)) is not None


class RowIndex:
    """The index of each distinct line, and how many rollouts of it there were so far."""

    def __init__(self) -> None:
        self._map = DigestMap()

    def find(self, digest: int) -> tuple[int, int]:
        """(index of the line, its next repeat)."""
        packed = self._map.get(digest)
        return (len(self._map), 0) if packed is None else (packed >> 32, packed & 0xFFFF_FFFF)

    def count(self, digest: int, repeats: int) -> None:
        index, first = self.find(digest)
        self._map.set(digest, index << 32 | (first + repeats))


def _zeros(count: int) -> array[int]:
    return array("Q", (0,)) * count


def _mix(digest: int, repeat: int) -> int:
    return (digest + repeat * _GOLDEN) & _MASK


def _slot(keys: array[int], key: int) -> int:
    """Where the key is, or the free slot where it would be."""
    mask = len(keys) - 1
    slot = key & mask
    while keys[slot] and keys[slot] != key:
        slot = (slot + 1) & mask
    return slot
