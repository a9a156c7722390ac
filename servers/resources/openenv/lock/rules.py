"""A lock of three digits: what opens it, and what a try tells."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

PLACES, DIGITS, TRIES = 3, 6, 8


def secret_of(seed: int) -> list[int]:
    random = Random(seed)
    return [random.randint(1, DIGITS) for _ in range(PLACES)]


def compare(secret: Sequence[int], tried: Sequence[int]) -> tuple[int, int]:
    """How many digits stand in their place, and how many others belong elsewhere."""
    right = sum(one == other for one, other in zip(secret, tried, strict=True))
    shared = sum(min(list(secret).count(digit), list(tried).count(digit)) for digit in set(tried))
    return right, shared - right
