"""Aggregates of verify replies under the contract's names."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym.wire.failures import RolloutError
from gym.wire.metrics import aggregate, describe, numbers, parse_replies, pass_at_k
from gym.wire.pass_rates import pass_and_majority


def reply(task: int, rollout: int, reward: float, **more: Any) -> dict[str, Any]:
    return {"_ng_task_index": task, "_ng_rollout_index": rollout, "reward": reward, **more}


def test_means_are_the_key_metrics() -> None:
    found = aggregate([reply(0, 0, 1.0, accuracy=True), reply(0, 1, 0.0, accuracy=False), reply(1, 0, 1.0)])
    assert found["key_metrics"] == {"mean/reward": pytest.approx(2 / 3), "mean/accuracy": 0.5}
    assert found["agent_metrics"]["max/reward"] == 1.0
    assert found["agent_metrics"]["min/accuracy"] == 0.0


def test_each_task_says_how_many_rollouts_are_missing() -> None:
    first, second = aggregate([reply(0, 0, 1.0), reply(0, 1, 0.0), reply(7, 1, 1.0)])["group_level_metrics"]
    assert (first["num_rollouts"], first["missing_num_rollouts"], first["mean/reward"]) == (2, 0, 0.5)
    assert (second["_ng_task_index"], second["missing_num_rollouts"]) == (7, 1)
    assert second["reward_profile_completion_pct"] == 50.0
    assert second["rollout_infos"] == [{"rollout_id": "7:1", "reward": 1.0}]


def test_the_numbers_of_the_usage_count_and_indices_do_not() -> None:
    found = numbers(reply(3, 4, 0.5, name="x", response={"usage": {"total_tokens": 9, "details": {}}}))
    assert found == {"reward": 0.5, "total_tokens": 9.0}


def test_what_is_not_a_finite_number_is_left_out() -> None:
    assert numbers({"reward": math.nan, "a": math.inf, "b": "1", "c": None, "d": [1]}) == {}


def test_one_value_has_no_spread() -> None:
    assert describe([{"a": 2.0}]) == {"mean/a": 2.0, "max/a": 2.0, "min/a": 2.0, "median/a": 2.0, "std/a": 0.0}


def test_nothing_gives_nothing() -> None:
    assert aggregate([]) == {"group_level_metrics": [], "agent_metrics": {}, "key_metrics": {}}


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"{}", b'{"verify_responses": {}}', b'{"verify_responses": [1]}', b"null"]
)
def test_a_body_without_a_list_of_replies_is_refused(body: bytes) -> None:
    with pytest.raises(RolloutError) as caught:
        parse_replies(body)
    assert (caught.value.kind, caught.value.status) == ("row", 422)


def test_a_task_index_that_no_task_can_have_is_refused() -> None:
    with pytest.raises(RolloutError):
        parse_replies(json.dumps({"verify_responses": [{"_ng_task_index": [1]}]}).encode())


@pytest.mark.parametrize(
    ("n", "correct", "k", "chance"), [(4, 0, 1, 0.0), (4, 4, 2, 1.0), (4, 1, 1, 0.25), (4, 1, 2, 0.5), (4, 3, 2, 1.0)]
)
def test_pass_at_k_is_the_chance_of_a_success_among_k(n: int, correct: int, k: int, chance: float) -> None:
    assert pass_at_k(n, correct, k) == pytest.approx(chance)


def test_the_majority_decides_and_equal_shares_are_averaged() -> None:
    tries = [reply(0, 0, 1.0, got="B"), reply(0, 1, 0.0, got="A"), reply(0, 2, 1.0, got="B")]
    found = pass_and_majority(tries, answer="got")
    assert found["majority@1/accuracy"] == 100.0
    assert found["majority@2/accuracy"] == 50.0
    assert found["majority@3/accuracy"] == 100.0
    assert found["pass@1/accuracy"] == pytest.approx(200 / 3)
    assert found["pass@1[avg-of-2]/accuracy"] == 50.0


def test_silence_is_not_a_majority() -> None:
    found = pass_and_majority([reply(0, 0, 0.0, got=None), reply(0, 1, 1.0, got="B")], answer="got")
    assert found["majority@1/accuracy"] == 0.0
    assert found["majority@1/no_answer"] == 100.0
    assert found["majority@2/accuracy"] == 100.0
    assert found["pass@2/no_answer"] == 0.0
    assert found["pass@1[avg-of-2]/no_answer"] == 50.0


def test_k_ends_where_some_task_has_no_more_rollouts() -> None:
    found = pass_and_majority([reply(0, 0, 1.0), reply(0, 1, 1.0), reply(1, 0, 0.0)])
    assert set(found) == {"pass@1/accuracy", "pass@1[avg-of-1]/accuracy"}
    assert found["pass@1/accuracy"] == 50.0


def test_rewards_between_0_and_1_take_the_best_of_k() -> None:
    found = pass_and_majority([reply(0, 0, 0.25), reply(0, 1, 0.75)])
    assert (found["pass@1/accuracy"], found["pass@2/accuracy"]) == (25.0, 75.0)


def test_no_replies_give_no_rates() -> None:
    assert pass_and_majority([], answer="got") == {}


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from(["A", None])), min_size=1)
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_every_rate_is_a_percentage(tries: list[tuple[int, float, str | None]]) -> None:
    rates = pass_and_majority([reply(task, 0, reward, got=got) for task, reward, got in tries], answer="got")
    assert rates
    assert all(-1e-9 <= rate <= 100.0 + 1e-9 for rate in rates.values())
