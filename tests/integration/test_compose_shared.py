"""Agents that share a container: a stack is what it was with one for each, and what ends with it costs no rollout."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gym.collect import AttemptOptions, collect
from gym.runtime.status import StackStatus
from gym.wire.stack_names import replica_host, shared_port
from tests.support.docker import Stand, call, end_processes, engine_client, eventually, replicas, stand_in

pytestmark = pytest.mark.docker

RESOURCES = Path(__file__).parents[2] / "servers" / "resources"
NAMES = ("mcqa", "simple_weather")
AGENTS = tuple(f"{name}_simple_agent" for name in NAMES)
MCQA, WEATHER = "mcqa-simple-agent-1", "simple-weather-simple-agent-1"
SHARED = ("policy_model.responses_api_models.scripted.latency_seconds=0.1",)
OPTIONS = AttemptOptions(concurrency=16, timeout=120, max_attempts=8, backoff=0.2)
ROWS = [
    json.loads(line)
    for name in NAMES
    for line in (RESOURCES / name / "data" / "example.jsonl").read_text().splitlines()
]


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    with stand_in(tmp_path) as stand:
        yield stand


def host(stand: Stand, slug: str = "simple-agent-shared") -> str:
    return replica_host(stand.layout.read_state().project, slug, 1)


def started(container: str) -> str:
    with engine_client() as client:
        return str(client.api.inspect_container(container)["State"]["StartedAt"])


def status_of(stand: Stand) -> StackStatus:
    found = stand.runtime.status(stand.home)
    assert found is not None
    return found


def urls(stand: Stand) -> dict[str, str]:
    return {one.replica: one.url for one in status_of(stand).replicas}


async def collected(
    status: StackStatus, repeats: int, disturb: Callable[[], object] | None = None
) -> dict[tuple[int, int], dict[str, Any]]:
    """The rollouts of both environments' rows, each once; with the agent that made them."""
    done: list[tuple[tuple[int, int], dict[str, Any]]] = []
    disturbance: asyncio.Future[object] | None = None
    async for one in collect(status.router, ROWS, repeats=repeats, options=OPTIONS):
        done.append(((one.row, one.repeat), {"reward": one.reward, "failure": one.failure, "agent": one.agent}))
        if disturb and not disturbance:
            disturbance = asyncio.ensure_future(asyncio.to_thread(disturb))
    if disturbance:
        await disturbance
    wanted = {(row, repeat): 1 for row in range(len(ROWS)) for repeat in range(repeats)}
    assert Counter(key for key, _ in done) == wanted
    return dict(done)


async def test_two_agents_in_one_container_are_what_they_are_alone(stand: Stand) -> None:
    up = await asyncio.to_thread(stand.up, *NAMES, overrides=SHARED)
    containers = replicas(up)
    assert containers[MCQA] == containers[WEATHER] == host(stand)
    assert len(set(containers.values())) == len(containers) - 1
    assert urls(stand)[MCQA] == f"http://{host(stand)}:{shared_port(AGENTS[0])}" != urls(stand)[WEATHER]

    alone = await collected(up, 1)
    assert {one["agent"] for one in alone.values()} == set(AGENTS)
    right = {row: one["reward"] for (row, _), one in alone.items()}
    assert all(one["failure"] is None for one in alone.values())

    before = started(host(stand))
    disturbed = await collected(up, 20, lambda: end_processes(host(stand)))
    assert {key: one["reward"] for key, one in disturbed.items()} == {key: right[key[0]] for key in disturbed}
    assert started(host(stand)) != before
    eventually(lambda: status_of(stand).healthy, bool)

    for name in (*AGENTS, MCQA, WEATHER):
        lines = "\n".join(stand.runtime.logs(stand.home, (name,), follow=False, tail=100))
        assert lines.count("simple-agent-shared is ready") >= 2, name
        assert (
            stand.runtime.exec_command(stand.home, name, ("true",), terminal=False).argv[-2:-1]
            == (stand.runtime.exec_command(stand.home, MCQA, ("true",), terminal=False).argv[-2:-1])
        )
    for name in AGENTS:
        before, others = started(host(stand)), started(host(stand, "mcqa"))
        await asyncio.to_thread(stand.runtime.restart, stand.home, (name,), stand.seen.append, timeout=180)
        assert started(host(stand)) != before
        assert started(host(stand, "mcqa")) == others
    assert set(right.values()) == {one["reward"] for one in (await collected(status_of(stand), 1)).values()}


async def test_of_an_agent_that_is_scaled_the_other_keeps_its_container_and_both_answer(stand: Stand) -> None:
    up = await asyncio.to_thread(stand.up, *NAMES, overrides=SHARED)
    before = started(host(stand))
    scaled = await asyncio.to_thread(stand.runtime.scale, stand.home, {AGENTS[0]: 2}, stand.seen.append, timeout=180)
    assert replicas(scaled)["mcqa-simple-agent-2"] == host(stand, "mcqa-simple-agent")
    assert started(host(stand)) == before
    found = eventually(stand.layout.read_discovery, lambda one: one is not None and _healthy(one, AGENTS[0]) == 2)
    assert found is not None
    for one in found.instances[AGENTS[0]].replicas:  # discovery is written a moment before the router has read its file
        eventually(partial(call, up, "GET", f"{one.route}/healthz"), lambda answer: answer[0] == 200)
    prepared = stand.runtime.prepare(stand.home, *stand.plan(*NAMES, overrides=SHARED))
    changes = {one.service: one.action for one in stand.runtime.changes(stand.home, prepared)}
    assert changes == dict.fromkeys(changes, "keep") | {AGENTS[0]: "scale"}


async def test_an_environment_that_is_added_has_an_agent_of_its_own_and_replaces_none(stand: Stand) -> None:
    await asyncio.to_thread(stand.up, *NAMES, overrides=SHARED)
    before = started(host(stand))
    more = await asyncio.to_thread(stand.up, *NAMES, "string_match", overrides=SHARED)
    assert started(host(stand)) == before
    containers = replicas(more)
    assert containers[MCQA] == containers[WEATHER] == host(stand)
    assert containers["string-match-simple-agent-1"] == host(stand, "string-match-simple-agent")
    prepared = stand.runtime.prepare(stand.home, *stand.plan(*NAMES, "string_match", overrides=("++share=true",)))
    changes = {one.service: one.action for one in stand.runtime.changes(stand.home, prepared)}
    assert {name for name, action in changes.items() if action == "replace"} >= {*AGENTS, "string_match_simple_agent"}


@pytest.mark.long
async def test_a_third_agent_joins_and_all_leave_in_mid_run_without_a_rollout_lost_or_doubled(stand: Stand) -> None:
    """A member that joins or leaves replaces the container: what is in it drains, and what takes longer is retried."""
    up = await asyncio.to_thread(stand.up, *NAMES, overrides=SHARED)
    right = {row: one["reward"] for (row, _), one in (await collected(up, 1)).items()}
    apart = tuple(f"{name}.share=false" for name in AGENTS)
    asked = (*SHARED, "++share=true")
    for names, overrides in (((*NAMES, "xlam_fc"), asked), (NAMES, (*SHARED, *apart)), (NAMES, asked)):
        seen = await collected(up, 40, partial(stand.up, *names, overrides=overrides))
        assert {key: one["reward"] for key, one in seen.items()} == {key: right[key[0]] for key in seen}
    assert replicas(status_of(stand))[MCQA] == host(stand)


def _healthy(found: Any, name: str) -> int:
    return sum(one.healthy for one in found.instances[name].replicas)
