"""One data set and several agents: which of them a row is for, and that a slow one does not hold up the others."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.collect import CollectOptions, Event, Progress, Summary
from gym.collect.collection import collect_rollouts
from gym.collect.stop import StopSwitch
from gym.errors import ConfigError, UserError
from tests.support.agents import FakeAgent, fake_agent

PARAMS: dict[str, Any] = {"responses_create_params": {}}
HANG = {"delay": 3600}


def options(stack: FakeAgent, folder: Path, rows: Iterable[dict[str, Any]], **given: Any) -> CollectOptions:
    source = folder / "in.jsonl"
    source.write_bytes(b"".join(orjson.dumps({**PARAMS, **row}) + b"\n" for row in rows))
    return CollectOptions(stack_url=stack.url, inputs=(str(source),), output=folder / "X.jsonl", **given)


async def run(chosen: CollectOptions) -> Summary:
    return await collect_rollouts(chosen, lambda event: None)


def agents_of(folder: Path) -> list[str]:
    lines = (folder / "X.jsonl").read_bytes().splitlines()
    return sorted(orjson.loads(line)["agent_ref"]["name"] for line in lines)


async def test_rows_that_name_no_agent_go_to_the_one_that_was_named(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"id": 0}, {"id": 1, "agent_ref": {"name": "code"}}, {"id": 2, "agent_ref": None}]
    with fake_agent(names=("math", "code")) as agent:
        assert (await run(options(agent, tmp_path, rows, agent="math"))).exit_code == 0
    assert agents_of(tmp_path) == ["code", "math", "math"]


async def test_rows_that_name_no_agent_go_to_the_only_one(tmp_path: Path) -> None:
    with fake_agent(names=("math",)) as agent:
        assert (await run(options(agent, tmp_path, [{"id": 0}, {"id": 1}]))).exit_code == 0
    assert agents_of(tmp_path) == ["math", "math"]


async def test_rows_that_could_be_for_several_agents_are_one_error_that_names_them(tmp_path: Path) -> None:
    with fake_agent(names=("math", "code")) as agent:
        with pytest.raises(ConfigError) as caught:
            await run(options(agent, tmp_path, ({"id": number} for number in range(500))))
        assert agent.stats()["runs"] == 0
    (problem,) = caught.value.problems
    assert (problem.line, problem.key) == (1, "agent_ref")
    assert problem.what.startswith("the row names no agent, and the stack has several; so in lines 2, 3, ")
    assert problem.what.endswith(" and 489 more")
    assert problem.hint == "add it, or use --agent with one of: code, math"


async def test_an_agent_that_is_not_there_is_reported_before_a_row_is_read(tmp_path: Path) -> None:
    with (
        fake_agent(names=("math", "code")) as agent,
        pytest.raises(UserError, match="no agent .maths."),
    ):
        await run(options(agent, tmp_path, [{"id": 0}], agent="maths"))
    assert not (tmp_path / "X.jsonl").exists()


async def test_an_agent_that_hangs_does_not_hold_up_the_rows_of_another(tmp_path: Path) -> None:
    rows = [
        {"id": number, "agent_ref": {"name": ("slow", "quick")[number % 2]}, "fake": {} if number % 2 else HANG}
        for number in range(600)
    ]
    stop = StopSwitch()

    def end_when_the_quick_ones_are_done(event: Event) -> None:
        if isinstance(event, Progress) and event.done == 300:
            stop.pull()
            stop.pull()

    with fake_agent(names=("slow", "quick")) as agent:
        chosen = options(agent, tmp_path, rows, concurrency=8)
        summary = await collect_rollouts(chosen, end_when_the_quick_ones_are_done, stop)
        assert agent.stats()["most"] == 8
    assert {name: one.done for name, one in summary.progress.agents.items()} == {"quick": 300}
    assert agents_of(tmp_path) == ["quick"] * 300
