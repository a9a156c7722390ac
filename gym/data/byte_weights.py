"""The sum of weights of a text's bytes, in one pass without a branch: counting letters takes three times as long."""

from __future__ import annotations

import zlib
from typing import Final

MAX_WEIGHT: Final = 7
_CHUNK = 8192  # its sum stays below the 65,521 that adler32 counts to


def weigh(raw: bytes, weights: bytes) -> int:
    """`weights` has one for each of the 256 bytes, up to 7. The lower half of adler32 is one more than their sum."""
    if len(raw) <= _CHUNK:
        return (zlib.adler32(raw.translate(weights)) & 0xFFFF) - 1
    return sum(weigh(raw[start : start + _CHUNK], weights) for start in range(0, len(raw), _CHUNK))
