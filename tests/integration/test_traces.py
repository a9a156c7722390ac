"""Traces of a real local stack, received by OTLP: one for each attempt, whole, the router in it, no secret in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gym.collect import collect as rollouts_of
from gym.testing import GymStack
from tests.support.cli import gym
from tests.support.router import eventually
from tests.support.spans import Receiver, Seen, otlp_receiver

CANARY = "canary-7f3a"
CALLS = ("seed ", "model ", "tools ", "verify ", "sandbox ")  # spans of who calls; what is called has its own below
QUICK = ("OTEL_BSP_SCHEDULE_DELAY", "200")  # ms between two batches: what a shell says holds for every server


@dataclass
class Traced:
    up: GymStack
    receiver: Receiver


@contextmanager
def traced(folder: Path, name: str, model: str, **settings: str) -> Iterator[Traced]:
    with otlp_receiver() as receiver, pytest.MonkeyPatch.context() as shell:
        (folder / "telemetry.yaml").write_text(json.dumps({"telemetry": {"otlp": receiver.url}, **settings}))
        shell.setenv(*QUICK)
        up = GymStack(name, model=model, runtime="local", folder=folder).with_config("telemetry.yaml")
        with up:
            yield Traced(up, receiver)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    with traced(tmp_path_factory.mktemp("traced"), "simple_weather", "scripted", policy_api_key=CANARY) as stack:
        yield stack


def collect(stack: Traced, output: str, *words: str, name: str = "simple_weather") -> list[dict[str, Any]]:
    done = gym("rollouts", name, "-o", output, "--limit", "1", *words, cwd=stack.up.folder)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in (stack.up.folder / output).read_text().splitlines()]


def spans_of(stack: Traced, trace: str, wanted: set[str]) -> list[Seen]:
    """Once all the services wanted have sent theirs, the agent's outermost span among them. A service sends its own in
    several batches: each call has the span of what it called, and each span its parent."""

    def look() -> list[Seen] | None:
        spans = [one for one in stack.receiver.spans if one.trace == trace]
        known, parents = {one.id for one in spans}, {one.parent for one in spans}
        whole = any(one.name.startswith("invoke_agent") for one in spans) and parents <= {*known, ""}
        whole = whole and all(one.id in parents for one in spans if one.name.startswith(CALLS))
        return spans if whole and wanted <= {one.service for one in spans} else None

    found: list[Seen] = eventually(look)
    return found


def test_an_attempt_is_one_trace_from_the_collector_to_the_model(stack: Traced) -> None:
    lines = collect(stack, "out.jsonl", "--repeats", "2")
    assert len({line["_gym"]["trace"] for line in lines}) == 2
    names: list[str] = []
    for line in lines:
        agent = line["agent_ref"]["name"]
        spans = spans_of(stack, line["_gym"]["trace"], {"collector", agent, "simple_weather", "policy_model"})
        by_id = {one.id: one for one in spans}
        [root] = [one for one in spans if not one.parent]
        assert root.name == f"rollout {agent}"
        assert root.attributes["gym.reward"] == line["reward"]
        assert root.attributes["gym.repeat.index"] == line["_ng_rollout_index"]
        assert all(one.parent in by_id for one in spans if one is not root)
        models = [one for one in spans if one.service == "policy_model"]
        assert sum(one.attributes["gen_ai.usage.input_tokens"] for one in models) == line["_gym"]["tokens"]["input"]
        names += [one.name for one in spans if one.service == "simple_weather"]
    # a second attempt that begins after the first one's reply leaves out the seed, which does nothing here
    assert names.count("seed_session") in (1, 2)
    assert names.count("execute_tool get_weather") == names.count("verify") == 2
    assert set(names) == {"seed_session", "execute_tool get_weather", "verify"}
    assert "weather in Paris" in (stack.up.folder / "out.jsonl").read_text()
    assert not [body for body in stack.receiver.raw if CANARY.encode() in body]
    assert not [body for body in stack.receiver.raw if b"weather in Paris" in body]


def test_through_the_router_its_spans_lie_between_collector_and_agent(stack: Traced) -> None:
    [line] = collect(stack, "routed.jsonl", "--through-router")
    spans = spans_of(stack, line["_gym"]["trace"], {"collector", "router", line["agent_ref"]["name"]})
    by_id = {one.id: one for one in spans}
    agent = next(one for one in spans if one.name.startswith("invoke_agent"))
    services = []
    while agent.parent:
        agent = by_id[agent.parent]
        services.append(agent.service)
    assert set(services[:-1]) == {"router"}
    assert services[-1] == "collector"


def test_a_receiver_named_by_the_shell_is_the_collectors_too(stack: Traced) -> None:
    with otlp_receiver() as own:
        shell = {"OTEL_EXPORTER_OTLP_ENDPOINT": own.url}
        done = gym("rollouts", "simple_weather", "-o", "s.jsonl", "--limit", "1", cwd=stack.up.folder, env=shell)
        assert done.returncode == 0, done.stderr
        assert [one.service for one in own.spans] == ["collector"]


async def test_the_library_reports_where_its_shell_says_so(stack: Traced, monkeypatch: pytest.MonkeyPatch) -> None:
    row = json.loads((stack.up.folder / "out_materialized_inputs.jsonl").read_text().splitlines()[0])
    with otlp_receiver() as own:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", own.url)
        found = [one async for one in rollouts_of(stack.up.url, [row], agent=row["agent_ref"]["name"])]
    assert [one.reward for one in found] == [1.0]
    assert [one.name for one in own.spans] == [f"rollout {found[0].agent}"]


async def test_the_library_reports_where_the_stack_says_so(stack: Traced) -> None:
    row = json.loads((stack.up.folder / "out_materialized_inputs.jsonl").read_text().splitlines()[0])
    agent = row["agent_ref"]["name"]
    found = [one async for one in rollouts_of(stack.up.url, [row], agent=agent)]
    trace = json.loads(found[0].line)["_gym"]["trace"]
    names = {one.name for one in spans_of(stack, trace, {"collector", agent, "simple_weather", "policy_model"})}
    assert {f"rollout {agent}", "verify", "execute_tool get_weather"} <= names


def test_the_broker_of_a_local_stack_reports_below_its_callers(tmp_path: Path) -> None:
    with traced(tmp_path, "code_gen", "oracle") as stack:
        [line] = collect(stack, "o.jsonl", name="code_gen")
        spans = spans_of(stack, line["_gym"]["trace"], {"sandbox", "code_gen"})
    by_id = {one.id: one for one in spans}
    own = [one for one in spans if one.service == "sandbox"]
    assert "create" in {one.name for one in own}
    assert {by_id[one.parent].name for one in own} == {f"sandbox {one.name}" for one in own}


def test_a_wrong_block_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "telemetry.yaml").write_text("telemetry: {otlp: localhost:4318}")
    words = ("simple_weather", "--model", "scripted", "--runtime", "local", "--port", "0", "-c", "telemetry.yaml")
    done = gym("up", *words, cwd=tmp_path)
    assert done.returncode == 1
    assert "telemetry.otlp" in done.stderr
    assert "http://127.0.0.1:4318" in done.stderr
