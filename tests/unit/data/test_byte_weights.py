"""Weights of bytes add up to what the plain sum says, at any length."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gym.data.byte_weights import MAX_WEIGHT, weigh

WEIGHTS = bytes(number % (MAX_WEIGHT + 1) for number in range(256))


@given(st.binary(max_size=300), st.integers(0, 200))
def test_the_sum_is_the_plain_one(raw: bytes, times: int) -> None:
    assert weigh(raw * times, WEIGHTS) == sum(WEIGHTS[one] for one in raw * times)


def test_the_heaviest_text_of_any_length_is_weighed() -> None:
    heaviest = bytes([MAX_WEIGHT] * 256)
    for size in (0, 1, 8191, 8192, 8193, 65_521, 200_000):
        assert weigh(b"\xff" * size, heaviest) == MAX_WEIGHT * size
