"""Aggregates of an output: by agent, light, and bounded."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.collect import aggregates
from gym.collect.aggregates import AgentRows, RowsSoFar, add_row, aggregate_agents, lighten, read_output
from gym.errors import UserError


def row(task: int, reward: float, agent: str = "math", **extra: Any) -> dict[str, Any]:
    usage = {"usage": {"total_tokens": 10 * task}, "output": ["heavy"]}
    ref = {"agent_ref": {"type": "responses_api_agents", "name": agent}}
    return {"_ng_task_index": task, "_ng_rollout_index": 0, "reward": reward, "response": usage, **ref, **extra}


def group_by_agent(*rows: dict[str, Any]) -> dict[str, AgentRows]:
    agents: dict[str, AgentRows] = {}
    for one in rows:
        add_row(agents, one)
    return agents


async def no_metrics(agent: str, body: bytes) -> dict[str, Any] | None:
    return None


def test_a_light_row_has_its_usage_and_nothing_heavy() -> None:
    light = lighten(row(1, 1.0, responses_create_params={"input": "long"}, _gym={"key": "k"}, expected="4"))
    assert light["response"] == {"usage": {"total_tokens": 10}}
    assert light["expected"] == "4"
    assert not {"responses_create_params", "_gym"} & light.keys()


async def test_an_agents_own_metrics_win_and_others_get_the_baseline() -> None:
    asked: dict[str, int] = {}

    async def ask(agent: str, body: bytes) -> dict[str, Any] | None:
        asked[agent] = len(orjson.loads(body)["verify_responses"])
        return {"agent_metrics": {"own": 1.0}} if agent == "code" else None

    agents = group_by_agent(row(0, 1.0), row(1, 0.0), row(0, 1.0, "code"))
    code, math = await aggregate_agents(agents, ask)
    assert asked == {"code": 1, "math": 2}
    assert (code["agent_ref"], code["agent_metrics"]["own"]) == ({"name": "code"}, 1.0)
    assert math["agent_metrics"]["mean/reward"] == 0.5
    assert math["agent_metrics"]["max/total_tokens"] == 10
    assert [group["num_rollouts"] for group in math["group_level_metrics"]] == [1, 1]


async def test_rollouts_whose_tokens_do_not_add_up_are_counted() -> None:
    stamps = [{}, {"tokens_break": {"step": 2}}, {"tokens_break": {"step": 3}}]
    agents = group_by_agent(*(row(number, 1.0, _gym=stamp) for number, stamp in enumerate(stamps)))
    (entry,) = await aggregate_agents(agents, no_metrics)
    assert entry["agent_metrics"]["tokens_breaks"] == 2


@pytest.mark.parametrize("bound", [("MAX_ROWS", 2), ("MAX_BYTES", 200)])
async def test_too_much_for_one_request_is_summed_up_here(
    monkeypatch: pytest.MonkeyPatch, bound: tuple[str, int]
) -> None:
    small = group_by_agent(*(row(task, task % 2) for task in range(9)))
    (expected,) = await aggregate_agents(small, no_metrics)
    monkeypatch.setattr(aggregates, *bound)
    large = group_by_agent(*(row(task, task % 2) for task in range(9)))
    assert not large["math"].fits
    (entry,) = await aggregate_agents(large, no_metrics)
    certain = {name: value for name, value in expected["agent_metrics"].items() if "/ci_" not in name}
    assert {name: entry["agent_metrics"][name] for name in certain} == pytest.approx(certain)
    assert entry["key_metrics"] == pytest.approx(expected["key_metrics"])
    assert entry["group_level_metrics"] == []


def test_nothing_is_kept_once_it_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregates, "MAX_ROWS", 1)
    rows = AgentRows()
    for task in range(3):
        rows.add(row(task, 1.0))
    assert rows.request() == b'{"verify_responses":[]}'
    assert len(rows.table) == 3
    rows.close()


def test_a_full_disk_ends_what_is_kept_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def add(rows: AgentRows, row: dict[str, Any]) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    rows = RowsSoFar(complete=True)
    rows.add(row(0, 1.0))
    assert rows.complete
    monkeypatch.setattr(AgentRows, "add", add)
    rows.add(row(1, 1.0))
    assert not rows.complete


@pytest.mark.parametrize(
    "damaged",
    [
        b'{"reward": 1.0, "agent_ref',
        b"[1]",
        b'{"agent_ref":null,"reward":1}',
        orjson.dumps(row(1, 1.0) | {"reward": None}),
    ],
)
def test_a_line_that_was_damaged_is_named(tmp_path: Path, damaged: bytes) -> None:
    path = tmp_path / "X.jsonl"
    path.write_bytes(b"\n".join([orjson.dumps(row(0, 1.0)), damaged, b""]))
    with pytest.raises(UserError, match=r"X\.jsonl:2: .* or is damaged"):
        read_output(path, lambda: None)
