"""Two collections, paired: the difference of task means, what flipped, and what cannot be paired."""

from __future__ import annotations

import random
from pathlib import Path

import orjson
import pytest

from gym.collect.study.comparison import compare_rollouts
from gym.errors import UserError
from tests.support.recordings import ran, row, write_collection


def collection(path: Path, rewards: dict[int, list[float]]) -> Path:
    attempts = [ran(task, repeat, reward) for task, scores in rewards.items() for repeat, reward in enumerate(scores)]
    random.Random(3).shuffle(attempts)
    return write_collection(path, attempts).rollouts


def test_tasks_are_paired_by_their_means(tmp_path: Path) -> None:
    before = collection(tmp_path / "a.jsonl", {0: [0.0, 1.0], 1: [0.0, 0.0], 2: [1.0]})
    after = collection(tmp_path / "b.jsonl", {1: [1.0], 0: [1.0, 1.0, 1.0, 1.0], 3: [0.0]})
    found = compare_rollouts(before, after)
    assert (found.tasks, found.only_before, found.only_after) == (2, 1, 1)
    assert (found.mean_before, found.mean_after) == (0.25, 1.0)
    assert found.difference == 0.75
    assert found.interval == (0.5, 1.0)
    assert found.p_value == 0.5


def test_flips_are_listed_with_both_places(tmp_path: Path) -> None:
    before = write_collection(tmp_path / "a.jsonl", [ran(0, 0, 0.0), ran(0, 1, 1.0), ran(1, 0, 1.0)]).rollouts
    after = write_collection(tmp_path / "b.jsonl", [ran(1, 0, 0.0), ran(0, 1, 1.0), ran(0, 0, 1.0)]).rollouts
    found = compare_rollouts(before, after)
    assert (found.better, found.worse) == (1, 1)
    better, worse = found.flips
    assert (better.task, better.repeat, better.before, better.after) == (0, 0, 0.0, 1.0)
    assert (better.where_before, better.where_after) == (f"{before}:1", f"{after}:3")
    assert (worse.where_before, worse.where_after) == (f"{before}:3", f"{after}:1")


def test_where_a_flip_lies_can_be_said(tmp_path: Path) -> None:
    before = collection(tmp_path / "a.jsonl", {0: [0.2], 1: [0.8]})
    after = collection(tmp_path / "b.jsonl", {0: [0.4], 1: [0.7]})
    assert compare_rollouts(before, after).flips == []
    assert len(compare_rollouts(before, after, flip_at=0.3).flips) == 1


def test_a_clear_difference_is_significant_and_noise_is_not(tmp_path: Path) -> None:
    source = random.Random(4)
    noise = {task: [float(source.random() < 0.5) for _ in range(4)] for task in range(60)}
    other = {task: [float(source.random() < 0.5) for _ in range(4)] for task in range(60)}
    better = {task: [1.0] * 4 for task in range(60)}
    before = collection(tmp_path / "a.jsonl", noise)
    same = compare_rollouts(before, collection(tmp_path / "b.jsonl", other))
    clear = compare_rollouts(before, collection(tmp_path / "c.jsonl", better))
    assert same.interval is not None
    assert same.interval.low < 0 < same.interval.high
    assert same.p_value > 0.05
    assert clear.interval is not None
    assert clear.interval.low > 0.3
    assert clear.p_value < 0.001


def test_one_task_has_no_interval(tmp_path: Path) -> None:
    before, after = collection(tmp_path / "a.jsonl", {0: [0.0]}), collection(tmp_path / "b.jsonl", {0: [1.0]})
    found = compare_rollouts(before, after)
    assert (found.interval, found.p_value) == (None, 1.0)


def test_collections_that_share_nothing_are_refused_and_may_be_paired_by_index(tmp_path: Path) -> None:
    before = collection(tmp_path / "a.jsonl", {0: [0.0], 1: [1.0]})
    attempts = [ran(task, 0, 1.0, given=row(task, text=f"reworded {task}")) for task in range(2)]
    after = write_collection(tmp_path / "b.jsonl", attempts).rollouts
    with pytest.raises(UserError) as caught:
        compare_rollouts(before, after)
    assert "(2 tasks)" in caught.value.what
    assert "share no row" in caught.value.what
    assert "--by index" in caught.value.hint
    assert compare_rollouts(before, after, by="index").difference == 0.5


def test_a_file_of_another_collector_is_paired_by_index(tmp_path: Path) -> None:
    before = collection(tmp_path / "a.jsonl", {0: [0.0], 1: [1.0]})
    lines = [orjson.dumps({"reward": 1.0, "_ng_task_index": task, "_ng_rollout_index": 0}) for task in range(2)]
    after = tmp_path / "b.jsonl"
    after.write_bytes(b"\n".join(lines))
    assert compare_rollouts(before, after).tasks == 2
    with pytest.raises(UserError, match=r"b\.jsonl:1: the line holds no key"):
        compare_rollouts(before, after, by="row")


def test_a_rollout_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    before = collection(tmp_path / "a.jsonl", {0: [0.0]})
    after = write_collection(tmp_path / "b.jsonl", [ran(0), ran(0)]).rollouts
    with pytest.raises(UserError, match=r"b\.jsonl:2: .*twice"):
        compare_rollouts(before, after)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    before = collection(tmp_path / "a.jsonl", {0: [0.0]})
    with pytest.raises(UserError, match="no rollouts"):
        compare_rollouts(before, write_collection(tmp_path / "b.jsonl", []).rollouts)
