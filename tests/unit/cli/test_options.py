"""What stands on a command line: names, overrides, counts."""

from __future__ import annotations

import pytest

from gym.cli.options import parse_counts, split_items
from gym.cli.rollout_inputs import parse_shard
from gym.errors import UserError


def test_names_and_overrides_may_be_mixed() -> None:
    items = ["mcqa", "a.b=c", "simple_weather", "+new=1", "++over=2", "~gone", "x=y=z"]
    assert split_items(items) == (("mcqa", "simple_weather"), ("a.b=c", "+new=1", "++over=2", "~gone", "x=y=z"))


def test_counts_are_names_and_numbers() -> None:
    assert parse_counts(["mcqa=4", "a b=0"], "--replicas") == {"mcqa": 4, "a b": 0}


@pytest.mark.parametrize("pair", ["mcqa", "mcqa=", "=4", "mcqa=-1", "mcqa=two", "mcqa=1001", "mcqa=1.5"])
def test_a_count_that_is_none_is_refused_with_an_example(pair: str) -> None:
    with pytest.raises(UserError, match="expected NAME=N") as caught:
        parse_counts([pair], "scale")
    assert pair in caught.value.what


def test_a_shard_is_a_part_of_a_whole() -> None:
    assert parse_shard("2/8") == (2, 8)
    with pytest.raises(UserError, match="expected I/N"):
        parse_shard("2of8")
