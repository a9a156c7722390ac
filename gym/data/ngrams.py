"""A text as hashed n-grams of its words: two texts that share many of them say nearly the same.

Case, signs and blanks do not count. The hashes are the same in every process.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NamedTuple
from zlib import crc32

WORD: Final = re.compile(r"\w+")
ASCII_WORD: Final = re.compile(rb"\w+")
MAX_GRAMS = 64  # so many n-grams stand for a text, chosen by their hashes; short texts have all of theirs


class Grams(NamedTuple):
    text: int  # of all words together: texts with the same one are the same
    all: frozenset[int]


def make_grams(text: str, size: int) -> Grams | None:
    """None for a text without a word. One with fewer words than `size` is one n-gram."""
    words = list(map(crc32, _words(text)))
    if not words:
        return None
    whole = hash(tuple(words))
    if len(words) < size:
        return Grams(whole, frozenset((whole,)))
    return Grams(whole, frozenset(map(hash, zip(*(words[start:] for start in range(size)), strict=False))))


def choose_grams(grams: frozenset[int]) -> frozenset[int]:
    """Those that stand for the text: all of a short one, else those whose hash can be divided by a power of two."""
    mask = (1 << max(0, (len(grams) // MAX_GRAMS).bit_length())) - 1
    chosen = frozenset(one for one in grams if not _spread(one) & mask) if mask else grams
    return chosen or grams


def _words(text: str) -> list[bytes]:
    if text.isascii():  # the same words, in two thirds of the time
        return ASCII_WORD.findall(text.lower().encode())
    folded = unicodedata.normalize("NFKC", text).casefold()
    return [word.encode("utf-8", "replace") for word in WORD.findall(folded)]


def _spread(value: int) -> int:
    """Low bits that hang on all of the hash."""
    return ((value * 0x9E37_79B9_7F4A_7C15) & 0xFFFF_FFFF_FFFF_FFFF) >> 40
