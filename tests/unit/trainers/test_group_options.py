"""What a trainer asks for is checked before anything starts, and each refusal says what to write."""

from __future__ import annotations

from typing import Any

import pytest

from gym.errors import UserError
from gym.trainers import Curriculum, GroupOptions, GroupStream, Source, read_options

ROW: dict[str, Any] = {"responses_create_params": {}}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"sise": 8}, "did you mean size?"),
        ({"no_such_thing": 8}, "there are: concurrency"),
        ({"size": 0}, "size is 0; it must be between 1 and 10,000"),
        ({"size": "many"}, "size: Input should be a valid integer"),
        ({"size": 1, "drop_equal": True}, "at least 2 with drop_equal"),
        ({"params": {"temperature": float("nan")}}, "params cannot be written as JSON: Out of range"),
        ({"limit": 0}, "limit is 0"),
        ({"epochs": 0}, "epochs is 0"),
        ({"ahead": 0}, "ahead is 0"),
        ({"extra": -1}, "extra is -1"),
        ({"max_drops": 0}, "max_drops is 0"),
        ({"max_stale": -1}, "max_stale is -1"),
        ({"stale": "keep"}, "stale: Input should be 'cancel' or 'mark'"),
        ({"share": 0}, "share is 0"),
        ({"share": float("nan")}, "share is nan"),
        ({"timeout": 0}, "timeout is 0"),
        ({"curriculum": {"lo": 0.1}}, "did you mean curriculum.low?"),
        ({"curriculum": {"low": 0.8, "high": 0.2}}, "0 <= low < high <= 1"),
        ({"curriculum": {"rest": 0}}, "rest is 0"),
        ({"curriculum": {"next_level_at": 2}}, "next_level_at is 2"),
    ],
)
def test_a_wrong_option_is_refused_by_name(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError) as refused:
        read_options(options)
    assert sentence in str(refused.value)


def test_options_may_come_as_text_and_nested_ones_as_mappings() -> None:
    options = read_options({"size": "4", "drop_equal": "true", "curriculum": {"low": 0.25}, "epochs": None})
    assert options == GroupOptions(size=4, drop_equal=True, curriculum=Curriculum(low=0.25), epochs=None)


def test_a_stream_keeps_its_places_busy_unless_an_option_says_how_far_ahead_to_go() -> None:
    assert GroupOptions(size=8, concurrency=64).groups_ahead * 8 >= 64
    assert GroupOptions(size=100, concurrency=8).groups_ahead >= 1
    assert GroupOptions(ahead=3).groups_ahead == 3


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ([Source("a", [ROW], weight=-1)], "the weight of 'a' is -1"),
        ([Source("a", [ROW], weight=float("inf"))], "the weight of 'a' is inf"),
        ([Source("a", [ROW], 0), Source("b", [ROW], 0)], "all weights are 0: a, b"),
        ([Source("a", [ROW]), Source("a", [ROW])], "two parts of the blend are named 'a'"),
        ([Source("a", [ROW]), ROW], "make each a Source"),
    ],
)
def test_a_wrong_blend_is_refused_before_anything_is_asked(rows: Any, sentence: str) -> None:
    with pytest.raises(UserError) as refused:
        GroupStream("http://127.0.0.1:1", rows)
    assert sentence in str(refused.value)
