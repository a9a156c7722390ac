"""single_step_tool_use on a real socket, and as pure functions: what may pass for an expected step."""

from __future__ import annotations

from typing import Any

import pytest
from app import SingleStepConfig, SingleStepToolUse
from comparison import Call, Comparator, Verdict
from hypothesis import given as given_any
from hypothesis import strategies as st
from pydantic import ValidationError
from rules import ArgumentRules, Category, ComparatorConfig
from schemas import conforms
from texts import split_keeping_quotes

from gym.server import ServerApp
from gym.server.config import Settings
from gym.server.fuzz import fuzz_verify
from gym.server.testing import Rows


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"strict": True},
        {"tool_call_comparator_config": {"use_f1_for_list": True, "keep_quotes": True}},
        {
            "tool_call_comparator_config": {
                "parallel_tool_call_reward_mode": "f1",
                "use_f1_for_list": True,
                "use_strong_list_reward": True,
                "argument_comparison_overrides": {"find_booking": {"code": {"coerce_actual_string_to_list": True}}},
            }
        },
    ],
)
def test_no_well_formed_request_breaks_it(app: ServerApp, rows: Rows, fields: dict[str, Any]) -> None:
    fuzz_verify(app.configured(fields), rows, tools=["find_booking", "search_flights", "refund"])


@pytest.mark.parametrize(
    ("wanted", "given", "category"),
    [
        ({"a": 1}, {"b": 1}, Category.OTHER_KEYS),
        ({"a": 1}, {"a": "1"}, Category.OTHER_TYPE),
        ({"a": 1}, {"a": 2}, Category.OTHER_VALUE),
        ({"a": [1, 2]}, {"a": [1]}, Category.OTHER_LENGTH),
        ({"a": 1.5}, {"a": 1.6}, Category.OTHER_VALUE),
        ({"a": None}, {"a": 0}, Category.OTHER_TYPE),
        ({"a": "Oslo"}, {"a": "oslo"}, Category.OTHER_VALUE),
        ({"a": "one two three"}, {"a": "four five six"}, Category.OTHER_VALUE),
        ({"goal": "x"}, {"goal": "y"}, Category.OTHER_VALUE),
        ({"a": 1}, [], Category.OTHER_TYPE),
    ],
)
def test_what_differs_is_named(wanted: Any, given: Any, category: Category) -> None:
    assert verdict(wanted, given) == (0.0, category)


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        ({"a": 1.5}, {"a": 1.5 + 1e-9}),
        ({"a": "cancel my order please"}, {"a": "please cancel the order"}),
        ({"a": [{"b": True}]}, {"a": [{"b": True}]}),
        ({"a": 1}, {"a": True}),
        ({}, {}),
    ],
)
def test_what_is_near_enough_passes(wanted: Any, given: Any) -> None:
    assert verdict(wanted, given).score == 1.0


@pytest.mark.parametrize(
    ("wanted", "given", "score"),
    [
        ({"a": 1}, {"a": True}, 0.0),
        ({"a": 1}, {"a": 1.0}, 1.0),
        ({"a": 2.5}, {"a": 10**400}, 0.0),
        ({"a": "cancel the order"}, {"a": "Cancel  the ORDER"}, 1.0),
        ({"a": "cancel the order"}, {"a": "order the cancel"}, 0.0),
        ({"a": "the airline cancelled the flight"}, {"a": "flight cancelled by the airline"}, 1.0),
        ({"a": "the airline cancelled the flight"}, {"a": "the airline has not cancelled the flight"}, 0.0),
        ({"a": "the airline cancelled 2 flights"}, {"a": "the airline cancelled 3 flights"}, 0.0),
        ({"a": "the airline cancelled the flight"}, {"a": "the the airline"}, 0.0),
    ],
)
def test_strict_compares_as_a_reader_would(wanted: Any, given: Any, score: float) -> None:
    comparator = Comparator(ComparatorConfig(), strict=True)
    assert comparator.compare(wanted, given).score == score


def test_lists_may_be_graded_by_f1() -> None:
    wanted, given = {"a": ["x", "y", "z"]}, {"a": ["z", "q", "x"]}
    assert verdict(wanted, given, use_f1_for_list=True).score == 1.0
    assert verdict(wanted, given, use_f1_for_list=True, list_f1_threshold=0.9).score == 0.0
    partial = verdict(wanted, given, use_f1_for_list=True, use_list_f1_threshold=False)
    assert partial.score == pytest.approx(2 / 3)
    assert partial.category == Category.LIST_NEAR
    assert verdict({"a": []}, {"a": []}, use_f1_for_list=True).score == 1.0
    assert verdict({"a": []}, {"a": [1]}, use_f1_for_list=True).score == 0.0
    assert verdict({"a": [1] * 600}, {"a": [1] * 600}, use_f1_for_list=True).score == 0.0


@pytest.mark.parametrize(
    ("given", "rules", "score"),
    [
        ([1, 2, 3, 4], {}, 0.0),
        ([1, 2, 3, 4], {"list_f1_min_precision": 0.5, "list_f1_max_actual_to_expected_ratio": 2}, 1.0),
        ([1, 2, 3, 4], {"list_f1_min_precision": 0.8, "list_f1_max_actual_to_expected_ratio": 2}, 0.0),
        ([1, 2, 3, 4], {"list_f1_min_precision": 0.5}, 0.0),
        ([1, 2], {"list_f1_min_recall": 0.5}, 1.0),
        ([1, 2], {"list_f1_min_recall": 0.7}, 0.0),
        ([1, 2], {"list_f1_min_recall": 0.5, "list_f1_threshold": 0.9}, 0.0),
        ([3, 2, 1], {}, 1.0),
    ],
)
def test_strong_lists_have_floors_for_each_way_to_miss(given: list[int], rules: dict[str, Any], score: float) -> None:
    options = {"use_f1_for_list": True, "use_strong_list_reward": True, **rules}
    assert verdict({"a": [1, 2, 3]}, {"a": given}, **options).score == score


def test_an_element_said_twice_is_weak_unless_that_is_allowed() -> None:
    loose = {"list_f1_min_precision": 0.5, "list_f1_max_actual_to_expected_ratio": 2, "use_f1_for_list": True}
    options = {**loose, "use_strong_list_reward": True}
    assert verdict({"a": [1, 2]}, {"a": [1, 2, 2]}, **options) == (0.0, Category.LIST_WEAK)
    assert (
        verdict({"a": [1, 2]}, {"a": [1, 2, 2]}, **options, list_f1_reject_duplicate_actual_values=False).score == 1.0
    )


@pytest.mark.parametrize(
    ("rules", "admitted"),
    [
        ({}, True),
        ({"word_count_min_precision": 0.75}, True),
        ({"word_count_min_precision": 0.76}, False),
        ({"word_count_min_recall": 0.6}, True),
        ({"word_count_min_recall": 0.61}, False),
        ({"word_count_max_actual_to_expected_ratio": 0.8}, True),
        ({"word_count_max_actual_to_expected_ratio": 0.79}, False),
        ({"word_count_max_unmatched_actual_words": 1}, True),
        ({"word_count_max_unmatched_actual_words": 0}, False),
        ({"word_count_similarity_threshold": 0.34}, False),
    ],
)
def test_an_override_says_how_far_a_text_may_be(rules: dict[str, Any], admitted: bool) -> None:
    wanted, given = "one two three four five", "three two one zero"
    overrides = {"f": {"a": rules}}
    assert verdict({"a": wanted}, {"a": given}, argument_comparison_overrides=overrides).score == float(admitted)


def test_an_override_holds_for_all_that_is_inside_of_its_argument_but_not_of_plain_lists() -> None:
    overrides = {"f": {"a": {"word_count_similarity_threshold": 0.5}}}
    near = ("one two three", "one two four")
    for wanted, given, score in (
        ({"a": {"b": near[0]}}, {"a": {"b": near[1]}}, 0.0),
        ({"b": {"a": near[0]}}, {"b": {"a": near[1]}}, 0.0),
        ({"b": near[0]}, {"b": near[1]}, 1.0),
        ({"a": [near[0]]}, {"a": [near[1]]}, 1.0),
    ):
        assert verdict(wanted, given, argument_comparison_overrides=overrides).score == score
    in_a_set = verdict(
        {"a": [near[0]]}, {"a": [near[1]]}, argument_comparison_overrides=overrides, use_f1_for_list=True
    )
    assert in_a_set.score == 0.0


@given_any(wanted=st.integers(1, 9), given=st.integers(0, 9), matched=st.integers(0, 9))
def test_no_limit_admits_everything(wanted: int, given: int, matched: int) -> None:
    assert ArgumentRules().admits_items(matched, wanted, given)
    assert not ArgumentRules().is_relaxed(wanted)


def test_only_named_arguments_are_compared_where_a_filter_says_so() -> None:
    filters = {"f": {"included_argument_names": ["a"]}, "g": {}}
    assert verdict({"a": 1, "b": 2}, {"a": 1, "c": 3}, argument_filters=filters).score == 1.0
    assert verdict({"a": 1}, {"a": 1}, argument_filters=None).score == 1.0
    assert verdict({"a": 1}, [], argument_filters=filters) == (0.0, Category.OTHER_TYPE)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('find "exact phrase" now', ["find", '"exact phrase"', "now"]),
        ("it's open", ["its", "open"]),
        ("a'b c'd", ["a", "'b c'", "d"]),
        ("", []),
    ],
)
def test_a_phrase_in_quotes_is_one_word(text: str, words: list[str]) -> None:
    assert split_keeping_quotes(text) == words


@pytest.mark.parametrize(
    ("given", "rules", "reward", "category"),
    [
        (["a"], {}, 0.0, Category.OTHER_COUNT),
        (["a"], {"allow_subset": True}, 1.0, Category.CALLS),
        (["a"], {"allow_subset": True, "parallel_tool_call_rewarding": False}, 0.0, Category.OTHER_COUNT),
        (["a"], {"allow_subset": True, "parallel_tool_call_reward_mode": "f1"}, 2 / 3, Category.OTHER_COUNT),
        (["a", "x"], {"parallel_tool_call_reward_mode": "fractional"}, 0.5, Category.OTHER_VALUE),
        (["a", "b", "x"], {}, 1.0, Category.CALLS),
        (["a", "b", "x"], {"allow_superset": True}, 1.0, Category.CALLS),
        (["a", "b", "x"], {"parallel_tool_call_rewarding": True}, 0.0, Category.OTHER_COUNT),
        (
            ["a", "b", "x", "y", "z"],
            {"allow_superset": True, "parallel_tool_call_reward_mode": "f1"},
            4 / 7,
            Category.OTHER_COUNT,
        ),
        (["b", "a"], {"parallel_tool_call_rewarding": True}, 1.0, Category.CALLS),
        (["a", "a"], {}, 0.0, Category.OTHER_VALUE),
        (["a", *"x" * 200, "b"], {}, 0.0, Category.OTHER_COUNT),
    ],
)
def test_several_calls_are_matched_in_any_order(
    given: list[str], rules: dict[str, Any], reward: float, category: Category
) -> None:
    config = SingleStepConfig.model_validate({"tool_call_comparator_config": rules})
    batch = [Call("f", {"q": one}) for one in "ab"]
    found = SingleStepToolUse(config, Settings()).judge_several(batch, [Call("f", {"q": one}) for one in given])
    assert found.score == pytest.approx(reward)
    assert found.category == category


def test_several_calls_are_compared_without_what_is_for_one() -> None:
    config = ComparatorConfig(
        allow_subset=True, use_f1_for_list=True, keep_quotes=True, word_count_similarity_threshold=0.4
    )
    assert config.for_several() == ComparatorConfig(allow_subset=True, word_count_similarity_threshold=0.4)


@pytest.mark.parametrize(
    ("arguments", "schema", "fine"),
    [
        ({"a": 1}, {"type": "object", "properties": {"a": {"type": "integer"}}}, True),
        ({"a": "1"}, {"type": "object", "properties": {"a": {"type": "integer"}}}, False),
        ({}, {"type": 7}, False),
        ({"a": 1}, {"$ref": "http://127.0.0.1:1/schema.json"}, False),
    ],
)
def test_arguments_conform_to_a_schema_or_not(arguments: Any, schema: dict[str, Any], fine: bool) -> None:
    assert conforms(arguments, schema) is fine


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(ValidationError, match="word_count_threshold"):
        SingleStepConfig.model_validate({"tool_call_comparator_config": {"word_count_threshold": 1}})


def verdict(wanted: Any, given: Any, **rules: Any) -> Verdict:
    return Comparator(ComparatorConfig.model_validate(rules)).compare_call(Call("f", wanted), Call("f", given))
