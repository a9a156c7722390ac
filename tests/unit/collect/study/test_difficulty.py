"""How hard each task was: pass rates by task, the two files, the data set of what lies between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.collect.sidecar import OutputPaths
from gym.collect.study.difficulty import DifficultyBounds, Profile, profile_rollouts
from gym.collect.study.recorded import Inputs
from gym.errors import UserError
from tests.support.recordings import ran, row, write_collection

REWARDS = {0: [1.0, 1.0], 1: [1.0, 0.0], 2: [0.0, 0.0]}


def profile(paths: OutputPaths, **options: Any) -> Profile:
    with Inputs(paths.materialized) as inputs:
        return profile_rollouts(paths, inputs, **{"bounds": DifficultyBounds(), **options})


def three_tasks(folder: Path) -> OutputPaths:
    """In the order in which rollouts finish, which is none."""
    attempts = [ran(task, repeat, REWARDS[task][repeat]) for repeat in (1, 0) for task in (2, 0, 1)]
    return write_collection(folder / "x.jsonl", attempts)


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


def test_every_task_has_its_rate_its_row_and_its_rollouts(tmp_path: Path) -> None:
    found = profile(three_tasks(tmp_path))
    lines = read_lines(tmp_path / "x_reward_profiling.jsonl")
    assert [(line["_ng_task_index"], line["mean/reward"], line["difficulty"]) for line in lines] == [
        (0, 1.0, "too easy"),
        (1, 0.5, "between"),
        (2, 0.0, "too hard"),
    ]
    assert lines[1]["sample"]["responses_create_params"] == row(1)["responses_create_params"]
    assert lines[1]["rollout_infos"][1] == {
        "rollout_id": "1:1",
        "reward": 0.0,
        "input_tokens": 11,
        "output_tokens": 5,
        "total_tokens": 16,
    }
    assert lines[1]["std/reward"] == pytest.approx(0.5**0.5)
    assert [one.task for one in found.hardest] == [2]
    assert found.easiest[0].where == f"{tmp_path}/x_materialized_inputs.jsonl:2"
    assert found.counts == {"math": {"too easy": 1, "between": 1, "too hard": 1}}


def test_a_row_that_is_nested_too_deep_to_be_written_has_its_rate(tmp_path: Path) -> None:
    deep = b"[" * 300 + b"]" * 300
    body, line_of_it = (one.replace(b'"DEEP"', deep) for one in ran(0, given=row(0, more="DEEP")))
    profile(write_collection(tmp_path / "x.jsonl", [(body, line_of_it)]))
    (line,) = read_lines(tmp_path / "x_reward_profiling.jsonl")
    assert (line["mean/reward"], line["sample"]["responses_create_params"]) == (1.0, row(0)["responses_create_params"])


def test_every_agent_has_its_metrics(tmp_path: Path) -> None:
    attempts = [ran(0, 0, 1.0), ran(0, 1, 0.0), ran(1, 0, 0.25, agent="code", tests_passed=3)]
    profile(write_collection(tmp_path / "x.jsonl", attempts))
    code, math = orjson.loads((tmp_path / "x_agent_metrics.json").read_bytes())
    assert (code["agent_ref"], math["agent_ref"]) == ({"name": "code"}, {"name": "math"})
    assert code["mean/tests_passed"] == 3
    assert math["mean/reward"] == 0.5
    assert math["pass@2/accuracy"] == 100.0


def test_a_field_that_some_rollouts_lack_is_a_mean_over_the_others(tmp_path: Path) -> None:
    attempts = [ran(0, 0), ran(0, 1, bonus=1), ran(0, 2), ran(0, 3, bonus=0), ran(1, 0)]
    profile(write_collection(tmp_path / "x.jsonl", attempts))
    first, second = read_lines(tmp_path / "x_reward_profiling.jsonl")
    assert first["mean/bonus"] == 0.5
    assert [info.get("bonus") for info in first["rollout_infos"]] == [None, 1, None, 0]
    assert "mean/bonus" not in second
    assert orjson.loads((tmp_path / "x_agent_metrics.json").read_bytes())[0]["max/bonus"] == 1


def test_what_lies_between_becomes_a_data_set_of_the_rows_as_they_were(tmp_path: Path) -> None:
    kept = profile(three_tasks(tmp_path), keep=(0.1, 0.9), keep_file=tmp_path / "new.jsonl").kept
    assert kept == 1
    assert (tmp_path / "new.jsonl").read_bytes() == orjson.dumps(row(1)) + b"\n"


def test_borders_are_inclusive_and_nothing_between_leaves_no_file(tmp_path: Path) -> None:
    paths = three_tasks(tmp_path)
    assert profile(paths, keep=(0.0, 0.5), keep_file=tmp_path / "low.jsonl").kept == 2
    assert profile(paths, keep=(0.6, 0.9), keep_file=tmp_path / "none.jsonl").kept == 0
    assert not (tmp_path / "none.jsonl").exists()


def test_other_borders_judge_otherwise(tmp_path: Path) -> None:
    found = profile(three_tasks(tmp_path), bounds=DifficultyBounds(too_easy=0.5, too_hard=-1.0))
    assert found.counts == {"math": {"too easy": 2, "between": 1}}


def test_missing_rollouts_are_refused_and_allowed_on_request(tmp_path: Path) -> None:
    paths = write_collection(tmp_path / "x.jsonl", [ran(0, 0), ran(1, 0)], lost=[ran(1, 1)])
    with pytest.raises(UserError) as caught:
        profile(paths)
    assert "1 of 3 rollouts are not in" in caught.value.what
    assert "(1 of them in" in caught.value.what
    assert not (tmp_path / "x_reward_profiling.jsonl").exists()
    assert profile(paths, partial=True).missing == 1
    second = read_lines(tmp_path / "x_reward_profiling.jsonl")[1]
    assert (second["num_rollouts"], second["missing_num_rollouts"]) == (1, 1)
    assert second["reward_profile_completion_pct"] == 50.0


def test_a_collection_that_was_broken_off_is_refused(tmp_path: Path) -> None:
    paths = three_tasks(tmp_path)
    paths.metrics.unlink()
    with pytest.raises(UserError, match="has not ended"):
        profile(paths)
    assert profile(paths, partial=True).missing == 0


def test_a_rollout_that_is_there_twice_is_refused_with_its_line(tmp_path: Path) -> None:
    paths = three_tasks(tmp_path)
    paths.rollouts.write_bytes(paths.rollouts.read_bytes() + ran(1, 0)[1])
    with pytest.raises(UserError, match=r"x\.jsonl:7: task 1, repeat 0 is there twice"):
        profile(paths)


def test_an_empty_file_has_no_rollouts(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no rollouts"):
        profile(write_collection(tmp_path / "x.jsonl", []))
