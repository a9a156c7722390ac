"""A rollout's key, `<row digest>:<repeat>`, and a table of millions of digests at 8 or 12 bytes a slot.

A million distinct rows cost 15 or 22 MB here, also while it grows (a dict of integers: 105 MB); among them 64 bits
clash with a chance of 3e-8. The first ones are in a dict, which is five times as fast.
"""

from __future__ import annotations

import hashlib
from array import array

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_GOLDEN = 0x9E37_79B9_7F4A_7C15  # odd: multiplied by it, keys stay as distinct as they were, and small ones spread
_SHARDS, _SHARD_SHIFT, _FIRST = 64, 58, 16
_FEW = 1 << 16  # keys that a dict holds, in 8 MB


def row_digest(line: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(line, digest_size=8).digest(), "big")


def format_key(digest: int, repeat: int) -> str:
    return f"{digest:016x}:{repeat}"


def parse_key(text: str) -> tuple[int, int]:
    digest, _, repeat = text.partition(":")
    return int(digest, 16), int(repeat)


class DigestTable:
    """64-bit keys and, where asked for, a 32-bit number for each: a few in a dict, many by open addressing in arrays.

    In shards, so that growing needs room for a small part only; a shard is filled to four fifths at most.
    """

    def __init__(self, *, values: bool = False) -> None:
        self._few: dict[int, int] | None = {}
        self._has_values = values
        self._keys: list[array[int]] = []
        self._values: list[array[int]] = []
        self._counts = [0] * _SHARDS
        self._count = 0

    def __len__(self) -> int:
        return self._count if self._few is None else len(self._few)

    def __contains__(self, key: int) -> bool:
        if self._few is not None:
            return key in self._few
        shard, slot = self._find(key)
        return self._keys[shard][slot] != 0

    def get(self, key: int) -> int | None:
        if self._few is not None:
            return self._few.get(key)
        shard, slot = self._find(key)
        return self._values[shard][slot] if self._keys[shard][slot] else None

    def add(self, key: int, value: int = 0) -> bool:
        """False when it is there already; its value stays."""
        return self.get_or_add(key, value) is None

    def get_or_add(self, key: int, value: int) -> int | None:
        """The value of a key that is there already (0 in a table without values); else None, and now it is there."""
        if (few := self._few) is not None:
            if (known := few.get(key)) is not None:
                return known
            if len(few) < _FEW:
                few[key] = value if self._has_values else 0
                return None
            self._become_many(few)
        mixed = _spread(key)
        shard = mixed >> _SHARD_SHIFT
        keys = self._keys[shard]
        slot = _slot(keys, mixed)
        if keys[slot]:
            return self._values[shard][slot] if self._has_values else 0
        keys[slot] = mixed
        if self._has_values:
            self._values[shard][slot] = value
        self._count += 1
        self._counts[shard] += 1
        if self._counts[shard] * 5 > len(keys) * 4:
            self._grow(shard)
        return None

    def _become_many(self, few: dict[int, int]) -> None:
        self._few = None
        self._keys = [_zeros("Q", _FIRST) for _ in range(_SHARDS)]
        self._values = [_zeros("I", _FIRST if self._has_values else 0) for _ in range(_SHARDS)]
        for key, value in few.items():
            self.add(key, value)

    def _find(self, key: int) -> tuple[int, int]:
        mixed = _spread(key)
        shard = mixed >> _SHARD_SHIFT
        return shard, _slot(self._keys[shard], mixed)

    def _grow(self, shard: int) -> None:
        size = len(self._keys[shard]) * 3 // 2
        keys, values = _zeros("Q", size), _zeros("I", size if self._has_values else 0)
        for place, key in enumerate(self._keys[shard]):
            if key:
                slot = _slot(keys, key)
                keys[slot] = key
                if self._has_values:
                    values[slot] = self._values[shard][place]
        self._keys[shard], self._values[shard] = keys, values


class DoneKeys:
    """The keys that need no more work."""

    def __init__(self) -> None:
        self._table = DigestTable()

    def __len__(self) -> int:
        return len(self._table)

    def add(self, digest: int, repeat: int) -> bool:
        """False when it was there already."""
        return self._table.add(_mix(digest, repeat))

    def has(self, digest: int, repeat: int) -> bool:
        return bool(self._table) and _mix(digest, repeat) in self._table


class RowIndex:
    """The index of each distinct line, and how many rollouts of it there were so far."""

    def __init__(self) -> None:
        self._table = DigestTable(values=True)
        self._usual = 0  # rollouts of a line that came once; the others' counts are few
        self._counts: dict[int, int] = {}

    def find(self, digest: int) -> tuple[int, int]:
        """(index of the line, its next repeat)."""
        index = self._table.get(digest)
        return (len(self._table), 0) if index is None else (index, self._counts.get(digest, self._usual))

    def count(self, digest: int, repeats: int) -> tuple[int, int]:
        """As `find`, by the same one look into the table; the next repeat is `repeats` further on from now on."""
        new = len(self._table)
        known = self._table.get_or_add(digest, new)
        self._usual = self._usual or repeats
        first = 0 if known is None else self._counts.get(digest, self._usual)
        if known is not None or repeats != self._usual:
            self._counts[digest] = first + repeats
        return new if known is None else known, first


def _zeros(kind: str, count: int) -> array[int]:
    return array(kind, (0,)) * count


def _mix(digest: int, repeat: int) -> int:
    return (digest + repeat * _GOLDEN) & _MASK


def _spread(key: int) -> int:
    """0 marks a free slot, so key 0 shares the slot of key 1."""
    return (key or 1) * _GOLDEN & _MASK


def _slot(keys: array[int], key: int) -> int:
    """Where the key is, or the free slot where it would be."""
    size = len(keys)
    slot = key % size
    while keys[slot] and keys[slot] != key:
        slot = slot + 1 if slot + 1 < size else 0
    return slot
