"""Shares of several environments: read, counted, and mixed so that every stretch has them."""

from __future__ import annotations

from fractions import Fraction

import pytest

from gym.config import Instance, ServerRef, StackConfig
from gym.data.blending import alternate, check_shares, choose, name_of_share, parse_shares, share_counts
from gym.data.data_sets import list_data_sets
from gym.errors import UserError


def test_shares_are_whole_numbers_or_fractions() -> None:
    assert parse_shares("a=2, b=0.5,c=1/3") == {"a": Fraction(2), "b": Fraction(1, 2), "c": Fraction(1, 3)}


@pytest.mark.parametrize("text", ["a", "a=", "a=x", "a=0", "a=-1", "=2", "a=1,a=2", "a=1/0", "a=1,,b=2"])
def test_what_is_not_a_share_is_reported(text: str) -> None:
    with pytest.raises(UserError, match="is not NAME=SHARE"):
        parse_shares(text)


@pytest.mark.parametrize(
    ("shares", "counts", "taken"),
    [
        ("a=2,b=1", {"a": 10, "b": 10}, {"a": 10, "b": 5}),
        ("a=2,b=1", {"a": 10, "b": 3}, {"a": 6, "b": 3}),
        ("a=1/3,b=2/3", {"a": 7, "b": 7}, {"a": 3, "b": 7}),
        ("a=3,b=1", {"a": 4}, {"a": 4}),
    ],
)
def test_as_many_rows_as_the_scarcest_allows_and_none_twice(
    shares: str, counts: dict[str, int], taken: dict[str, int]
) -> None:
    assert share_counts(parse_shares(shares), counts) == taken


def test_a_name_is_an_agents_or_its_servers_or_a_data_sets() -> None:
    agent = Instance(
        name="a_agent",
        type="responses_api_agents",
        implementation="simple_agent",
        fields={"datasets": [{"name": "rows", "type": "example", "jsonl_fpath": "a.jsonl"}]},
        references=(
            ServerRef(type="resources_servers", name="a"),
            ServerRef(type="responses_api_models", name="policy"),
        ),
    )
    (listed,) = list_data_sets(StackConfig(instances=(agent,)))
    for name in ("a_agent", "a", "rows"):
        check_shares({name: Fraction(1)}, [listed])
        assert name_of_share(listed, {name: Fraction(1)}) == name
    with pytest.raises(UserError, match="'policy'"):
        check_shares({"policy": Fraction(1)}, [listed])
    assert name_of_share(listed, {"b": Fraction(1)}) is None


def test_every_stretch_has_the_shares_of_the_whole() -> None:
    mixed = list(alternate([(Fraction(2), [b"a"] * 20), (Fraction(1), [b"b"] * 10)]))
    for end in range(3, 31, 3):
        assert (mixed[:end].count(b"a"), mixed[:end].count(b"b")) == (2 * end // 3, end // 3)


def test_rows_are_chosen_without_repeats_in_their_order_and_by_the_seed() -> None:
    rows = [b"%d" % number for number in range(100)]
    first = list(choose(rows, 30, 100, "s"))
    assert len(set(first)) == 30
    assert first == sorted(first, key=int)
    assert first == list(choose(rows, 30, 100, "s")) != list(choose(rows, 30, 100, "t"))
    assert list(choose(rows, 100, 100, "s")) == rows
    assert list(choose(rows, 0, 100, "s")) == []
