"""single_step_tool_use on a real socket, and as pure functions: what may pass for an expected step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from app import ExpectedCall, SingleStepConfig, SingleStepToolUse
from comparison import Comparator, ComparatorConfig, Verdict, split_keeping_quotes
from pydantic import ValidationError

from gym.server.cases import CASES, load_cases, missing_kinds, run_cases
from gym.server.config import Settings
from gym.server.fuzz import fuzz_verify
from gym.server.serve import load_app
from gym.wire.items import function_call

HERE = Path(__file__).parents[1]
ROWS: list[dict[str, Any]] = [
    json.loads(line) for line in (HERE / "data" / "example.jsonl").read_text("utf-8").splitlines()
]


async def test_every_case_ends_as_its_line_says() -> None:
    cases = load_cases(HERE / CASES)
    outcomes = await run_cases(load_app(HERE / "app.py"), "single_step_tool_use", {}, cases)
    assert not [one for one in outcomes if not one.passed]
    assert not list(missing_kinds(cases))


@pytest.mark.parametrize(
    "fields", [{}, {"strict": True}, {"tool_call_comparator_config": {"use_f1_for_list": True, "keep_quotes": True}}]
)
def test_no_well_formed_request_breaks_it(fields: dict[str, Any]) -> None:
    fuzz_verify(load_app(HERE / "app.py").configured(fields), ROWS, tools=["find_booking", "search_flights", "refund"])


@pytest.mark.parametrize(
    ("wanted", "given", "category"),
    [
        ({"a": 1}, {"b": 1}, "argument_object_keys_different"),
        ({"a": 1}, {"a": "1"}, "argument_value_type_different"),
        ({"a": 1}, {"a": 2}, "argument_value_different"),
        ({"a": [1, 2]}, {"a": [1]}, "argument_list_length_different"),
        ({"a": 1.5}, {"a": 1.6}, "argument_value_different"),
        ({"a": None}, {"a": 0}, "argument_value_type_different"),
        ({"a": "Oslo"}, {"a": "oslo"}, "argument_value_different"),
        ({"a": "one two three"}, {"a": "four five six"}, "argument_value_different"),
    ],
)
def test_what_differs_is_named(wanted: Any, given: Any, category: str) -> None:
    assert verdict(wanted, given) == (0.0, category)


@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        ({"a": 1.5}, {"a": 1.5 + 1e-9}),
        ({"a": "cancel my order please"}, {"a": "please cancel the order"}),
        ({"goal": "x", "a": [{"b": True}]}, {"goal": "anything", "a": [{"b": True}]}),
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
        ({"goal": "x"}, {"goal": "y"}, 0.0),
        ({"a": "cancel the order"}, {"a": "Cancel  the ORDER"}, 1.0),
        ({"a": "cancel the order"}, {"a": "order the cancel"}, 0.0),
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
    assert partial.category == "argument_list_f1_partial"
    assert verdict({"a": []}, {"a": []}, use_f1_for_list=True).score == 1.0
    assert verdict({"a": []}, {"a": [1]}, use_f1_for_list=True).score == 0.0
    assert verdict({"a": [1] * 600}, {"a": [1] * 600}, use_f1_for_list=True).score == 0.0


def test_only_named_arguments_are_compared_where_a_filter_says_so() -> None:
    filters = {"f": {"included_argument_names": ["a"]}}
    assert verdict({"a": 1, "b": 2}, {"a": 1, "c": 3}, argument_filters=filters).score == 1.0


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
    ("given", "rules", "reward"),
    [
        (["a"], {}, 0.0),
        (["a"], {"allow_subset": True}, 1.0),
        (["a", "x"], {"parallel_tool_call_reward_mode": "fractional"}, 0.5),
        (["a", "b", "x"], {"allow_superset": True}, 1.0),
        (["a", "b", "x", "y", "z"], {"allow_superset": True, "parallel_tool_call_reward_mode": "f1"}, 4 / 7),
        (["b", "a"], {}, 1.0),
        (["a", "a"], {}, 0.0),
    ],
)
def test_several_calls_are_matched_in_any_order(given: list[str], rules: dict[str, Any], reward: float) -> None:
    config = SingleStepConfig.model_validate({"tool_call_comparator_config": rules})
    batch = [ExpectedCall(type="function_call", name="f", arguments=json.dumps({"q": one})) for one in "ab"]
    calls = [function_call("f", json.dumps({"q": one})) for one in given]
    assert SingleStepToolUse(config, Settings()).judge_batch(batch, calls).score == pytest.approx(reward)


def test_a_rule_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValidationError, match="word_count_threshold"):
        SingleStepConfig.model_validate({"tool_call_comparator_config": {"word_count_threshold": 1}})


def verdict(wanted: Any, given: Any, **rules: Any) -> Verdict:
    return Comparator(ComparatorConfig.model_validate(rules)).compare_call("f", wanted, "f", json.dumps(given))
