"""Merging, setting and deleting in a tree that knows where its values were written."""

from __future__ import annotations

from gym.config.nodes import count_values, delete_at, did_you_mean, find, located, merge, nearest, plain, set_at
from gym.config.yaml_source import parse_yaml


def test_a_merge_keeps_the_place_of_what_it_keeps() -> None:
    low, high = parse_yaml("a: 1\nb: 2\n", "low.yaml"), parse_yaml("\n\nb: 3\n", "high.yaml")
    merged = merge(low, high)
    places = {key: (node.file, node.line) for key, node in merged.value.items()}
    assert places == {"a": ("low.yaml", 1), "b": ("high.yaml", 3)}


def test_a_merge_changes_neither_side() -> None:
    low, high = located({"a": {"x": 1}}, "l"), located({"a": {"y": 2}}, "h")
    assert plain(merge(low, high)) == {"a": {"x": 1, "y": 2}}
    assert (plain(low), plain(high)) == ({"a": {"x": 1}}, {"a": {"y": 2}})


def test_lists_and_scalars_are_replaced_by_mappings_and_mappings_by_them() -> None:
    for low, high in [([1], {"x": 1}), ({"x": 1}, [2]), (1, {"x": 1}), ({"x": 1}, None)]:
        assert plain(merge(located({"a": low}, "l"), located({"a": high}, "h"))) == {"a": high}


def test_setting_and_deleting_reach_into_lists() -> None:
    tree = located({"a": [{"b": 1}, 2]}, "f")
    assert plain(set_at(tree, ("a", "0", "b"), located(5, "f"))) == {"a": [{"b": 5}, 2]}
    assert plain(delete_at(tree, ("a", "0", "b"))) == {"a": [{}, 2]}
    assert plain(delete_at(tree, ("a", "1"))) == {"a": [{"b": 1}]}
    assert delete_at(tree, ("a", "9")) == tree


def test_a_word_is_not_an_index_of_a_list() -> None:
    tree = located({"a": [1]}, "f")
    assert find(tree, ("a", "x")) is None
    assert find(tree, ("a", "99999999999")) is None
    assert plain(found) == 1 if (found := find(tree, ("a", "-1"))) else False


def test_shared_branches_are_counted_as_often_as_they_stand() -> None:
    leaf = located([1, 2, 3], "f")
    tree = located({}, "f")
    for name in "abc":
        tree = set_at(tree, (name,), leaf)
    assert count_values(tree) == 1 + 3 * 4


def test_near_names_are_near() -> None:
    names = ["mcqa", "mcqa_simple_agent", "math_with_judge", "simple_weather"]
    assert nearest("mqca", names)[0] == "mcqa"
    assert nearest("MCQA", names)[0] == "mcqa"
    assert "mcqa_simple_agent" in nearest("mcqa_simple", names)
    assert did_you_mean("zzz", names) == ""
    assert did_you_mean("simple_wether", names) == "Did you mean `simple_weather`?"
