"""pass@k and its kin from columns: the contract's names, the numbers of its own function, intervals beside them."""

from __future__ import annotations

import itertools
import random
import statistics
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym.collect.aggregates import RowsSoFar, aggregate_agents
from gym.collect.study import tries as of_tries
from gym.collect.study.tries import NumberTable, Tries, extra_metrics
from gym.wire.metrics import ROLLOUT, TASK
from gym.wire.pass_rates import pass_and_majority
from tests.support.deep_json import nested
from tests.support.recordings import ran


def make_tries(rewards: dict[int, list[float]], answers: dict[int, list[Any]] | None = None) -> Tries:
    """In the order in which rollouts finish: repeat by repeat, the last ones first."""
    tries = Tries()
    for repeat in reversed(range(max(map(len, rewards.values()), default=0))):
        for task, scores in rewards.items():
            if repeat < len(scores):
                fields: dict[str, Any] = {"_ng_task_index": task, "_ng_rollout_index": repeat}
                if answers is not None:
                    fields["extracted_answer"] = answers[task][repeat]
                tries.add(fields, scores[repeat])
    return tries


def test_pass_at_k_is_unbiased_and_in_per_cent() -> None:
    metrics = extra_metrics(make_tries({0: [1.0, 0.0, 0.0, 0.0], 1: [0.0, 0.0, 0.0, 0.0]}))
    assert metrics["pass@1/accuracy"] == pytest.approx(12.5)
    assert metrics["pass@2/accuracy"] == pytest.approx(25.0)
    assert metrics["pass@4/accuracy"] == 50.0
    assert metrics["pass@1[avg-of-1]/accuracy"] == 50.0
    assert metrics["pass@1[avg-of-4]/accuracy"] == 12.5
    assert "majority@1/accuracy" not in metrics


def test_majorities_average_ties_and_count_silence() -> None:
    tries = make_tries({0: [1.0, 0.0, 0.0]}, {0: ["A", "B", None]})
    metrics = extra_metrics(tries)
    assert metrics["majority@2/accuracy"] == 50.0
    assert metrics["majority@3/accuracy"] == 50.0
    assert metrics["pass@1[avg-of-3]/no_answer"] == pytest.approx(100 / 3)


def test_answers_that_are_not_strings_count_as_what_they_say() -> None:
    metrics = extra_metrics(make_tries({0: [0.0, 1.0, 1.0]}, {0: [1, [1, 2], [1, 2]]}))
    assert metrics["majority@3/accuracy"] == 100.0


def test_runs_differ_by_their_means_over_tasks() -> None:
    metrics = extra_metrics(make_tries({0: [1.0, 0.0, 1.0], 1: [1.0, 1.0, 0.0]}))
    apart = statistics.stdev([100.0, 50.0, 50.0])
    assert metrics["pass@1[avg-of-3]/accuracy/std_dev_across_runs"] == pytest.approx(apart)
    assert metrics["pass@1[avg-of-3]/accuracy/std_err_across_runs"] == pytest.approx(apart / 3**0.5)
    within = statistics.fmean([statistics.stdev([100.0, 0.0, 100.0]), statistics.stdev([100.0, 100.0, 0.0])])
    assert metrics["pass@1[avg-of-3]/accuracy/avg_sample_std_dev"] == pytest.approx(within)
    assert metrics["pass@1[avg-of-2]/accuracy/std_dev_across_runs"] == pytest.approx(statistics.stdev([100.0, 50.0]))


def test_intervals_hold_their_mean_and_stand_for_powers_of_two_and_the_greatest_k() -> None:
    metrics = extra_metrics(make_tries({task: [float(task % 2), 0.0, 1.0, 0.0, 0.0] for task in range(20)}))
    found = {name.partition("/")[0] for name in metrics if name.endswith("/ci_low")}
    assert found == {f"pass@{k}" for k in (1, 2, 4, 5)} | {f"pass@1[avg-of-{k}]" for k in (1, 2, 4, 5)}
    name = "pass@1[avg-of-5]/accuracy"
    assert metrics[f"{name}/ci_low"] < metrics[name] < metrics[f"{name}/ci_high"]


def test_k_ends_at_the_task_with_the_fewest_rollouts() -> None:
    metrics = extra_metrics(make_tries({0: [1.0, 1.0, 1.0], 1: [0.0]}))
    assert metrics == {"pass@1/accuracy": 50.0, "pass@1[avg-of-1]/accuracy": 50.0} | {
        name: value for name, value in metrics.items() if "/ci_" in name
    }


def test_no_rollouts_give_no_metrics() -> None:
    assert extra_metrics(Tries()) == {}


@given(
    st.dictionaries(
        st.integers(0, 5), st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=1, max_size=5), min_size=1, max_size=5
    )
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_columns_say_what_whole_replies_say(rewards: dict[int, list[float]]) -> None:
    answers: dict[int, list[Any]] = {task: ["A" if one else None for one in scores] for task, scores in rewards.items()}
    replies = [
        {"_ng_task_index": task, "reward": score, "extracted_answer": answers[task][repeat]}
        for task, scores in rewards.items()
        for repeat, score in enumerate(scores)
    ]
    expected = pass_and_majority(replies, answer="extracted_answer")
    found = extra_metrics(make_tries(rewards, answers))
    assert {name: found[name] for name in expected} == pytest.approx(expected)


async def test_an_aggregate_has_them_beside_what_the_agent_says_and_the_agent_wins() -> None:
    async def ask(agent: str, body: bytes) -> dict[str, Any]:
        return {"agent_metrics": {"mean/reward": 0.5, "pass@1/accuracy": 7.0}}

    rows = RowsSoFar(complete=True)
    rows.add(orjson.loads(ran(0, 0, 1.0)[1]))
    rows.add(orjson.loads(ran(0, 1, 0.0)[1]))
    (entry,) = await aggregate_agents(rows.agents, ask)
    assert entry["agent_metrics"]["pass@1/accuracy"] == 7.0
    assert entry["agent_metrics"]["pass@2/accuracy"] == 100.0
    assert entry["agent_metrics"]["mean/reward"] == 0.5


@pytest.mark.parametrize("repeats", [1, 3])
def test_tasks_that_went_alike_are_counted_once_and_weigh_as_often(
    repeats: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(7)
    table = NumberTable()
    for task, repeat in itertools.product(range(400), range(repeats)):
        answer = dice.choice("AB")
        table.add({TASK: task, ROLLOUT: repeat, "extracted_answer": answer}, float(answer == "A"))
    one_by_one = without_intervals(extra_metrics(table))
    monkeypatch.setattr(of_tries, "MAX_DRAWN", 10)
    assert len(list(table.patterns())) < 20
    assert without_intervals(extra_metrics(table)) == pytest.approx(one_by_one)


def without_intervals(metrics: dict[str, float]) -> dict[str, float]:
    """They are drawn from the tasks in their order."""
    return {name: value for name, value in metrics.items() if "/ci_" not in name}


def test_answers_that_are_nested_too_deep_to_be_written_are_compared() -> None:
    deep = nested(300)
    metrics = extra_metrics(make_tries({0: [1.0, 1.0, 0.0]}, {0: [deep, deep, "B"]}))
    assert metrics["majority@3/accuracy"] == 100.0
