"""`gym case add`: a rollout becomes a verifier case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gym.cli.case_file import append_case, find_cases_file
from gym.cli.rollout_case import find_rollout, rollout_to_case
from gym.errors import UserError
from gym.server.cases import load_cases
from gym.wire import items

ROW = {"responses_create_params": {"input": "1+2"}, "expected": 3}
CALLS = [
    items.function_call("add", '{"number": 3}', call_id="c1"),
    items.function_call_output("c1", '{"sum": 3}'),
    items.function_call("add", "no json", call_id="c2"),
    items.function_call_output("c2", "Invalid tool call arguments"),
    items.message("3"),
]


def rollout(key: str, reward: float, **row: Any) -> dict[str, Any]:
    response = items.response(CALLS, model="m")
    agent = {"agent_ref": {"type": "responses_api_agents", "name": "simple_weather_simple_agent"}}
    fields = {**ROW, **row, **agent, "_ng_task_index": 0, "_ng_rollout_index": 0, "extra_of_verify": 1}
    return {**fields, "response": response, "reward": reward, "_gym": {"key": key, "agent": "x"}}


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    write(tmp_path / "example.jsonl", {"responses_create_params": {"input": "0"}}, ROW)
    return tmp_path / "verifier_cases.jsonl"


@pytest.fixture
def rollouts(tmp_path: Path) -> Path:
    write(tmp_path / "r.jsonl", rollout("ab1:0", 1.0), rollout("ab2:0", 0.0, expected=9), rollout("c:0", 0.5))
    write(tmp_path / "r_materialized_inputs.jsonl", {**ROW, "_ng_task_index": 0, "_ng_rollout_index": 0})
    return tmp_path / "r.jsonl"


def write(path: Path, *lines: object) -> None:
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))


def made(rollouts: Path, cases: Path, key: str, **given: Any) -> dict[str, Any]:
    return rollout_to_case(
        find_rollout(rollouts, key), cases, **{"name": "", "reward": None, "oracle": False, "steps": True, **given}
    )


def test_a_rollout_of_an_example_row_names_the_row_and_keeps_what_was_said_and_called(
    rollouts: Path, cases: Path
) -> None:
    case = made(rollouts, cases, "ab1", oracle=True)
    append_case(cases, case)
    append_case(cases, made(rollouts, cases, "c", name="half", steps=False))
    assert case["row"] == 1
    assert case["steps"] == [{"tool": "add", "arguments": {"number": 3}}]
    whole, half = load_cases(cases)
    assert whole.request["expected"] == 3
    assert whole.request["response"]["output"] == CALLS
    assert (whole.kind, whole.oracle, whole.name) == ("full_reward", True, "rollout ab1:0")
    assert (half.kind, half.expected_reward, half.steps) == ("partial", 0.5, ())


def test_a_row_of_another_data_set_stands_in_the_case(rollouts: Path, cases: Path) -> None:
    (rollouts.parent / "r_materialized_inputs.jsonl").unlink()
    case = made(rollouts, cases, "ab2")
    assert "row" not in case
    assert case["kind"] == "zero_reward"
    assert case["request"]["expected"] == 9
    assert not {"agent_ref", "_ng_task_index", "_gym", "reward"} & case["request"].keys()


def test_a_wrong_verdict_becomes_the_case_of_the_right_one(rollouts: Path, cases: Path) -> None:
    assert made(rollouts, cases, "ab1", reward=0.0)["kind"] == "zero_reward"
    with pytest.raises(UserError, match="An oracle's answer is paid"):
        made(rollouts, cases, "ab1", reward=0.0, oracle=True)


@pytest.mark.parametrize("reward", ["nan", "inf"])
def test_a_case_that_expects_no_finite_number_is_not_written(rollouts: Path, cases: Path, reward: str) -> None:
    with pytest.raises(UserError, match="a finite number"):
        made(rollouts, cases, "ab1", reward=float(reward))


@pytest.mark.parametrize(("key", "found"), [("ab", "2 rollouts .*: ab1:0, ab2:0"), ("z", "no rollout")])
def test_a_key_names_one_rollout(rollouts: Path, key: str, found: str) -> None:
    with pytest.raises(UserError, match=found):
        find_rollout(rollouts, key)


def test_a_second_case_of_one_name_is_refused_and_the_file_stays(rollouts: Path, cases: Path) -> None:
    append_case(cases, made(rollouts, cases, "c"))
    before = cases.read_bytes()
    with pytest.raises(UserError, match="--name TEXT") as caught:
        append_case(cases, made(rollouts, cases, "c"))
    assert "already" in caught.value.what
    assert cases.read_bytes() == before
    assert cases.stat().st_mode & 0o777 == 0o644


def test_the_server_is_the_one_that_the_agent_is_called_after() -> None:
    assert find_cases_file("", "simple_weather_simple_agent").parts[-3] == "simple_weather"
    assert find_cases_file("mcqa", "simple_weather_simple_agent").parts[-3] == "mcqa"
    with pytest.raises(UserError, match="--server NAME"):
        find_cases_file("", "an_unknown_agent")
