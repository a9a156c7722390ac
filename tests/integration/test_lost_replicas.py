"""A replica that hangs or is cut off in mid-run: its rollouts go on with another, long before their deadline."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gym.collect import AttemptOptions, collect
from gym.runtime.compose.layout import Layout
from gym.testing import GymStack
from tests.support.docker import engine_client, eventually, need_engine
from tests.support.repair import healthy_replicas
from tests.support.stacks import replica

ROWS = Path(__file__).parents[2] / "servers" / "resources" / "stateful_counter" / "data" / "example.jsonl"
SLOW = ("stateful_counter", "policy_model.responses_api_models.scripted.latency_seconds=0.5")
MODEL, AGENT = "policy_model", "stateful_counter_simple_agent"
# Who is held by a replica that has gone is held for ten minutes: the test would end by its own limit before.
OPTIONS = AttemptOptions(concurrency=40, timeout=600, max_attempts=4, backoff=0.2)
MOST_SECONDS = 120.0  # the router notices by itself after 150
REPEATS = 20


def test_rollouts_of_a_stopped_model_server_finish_on_the_other_replica() -> None:
    """It is stopped until the run is over; its kernel goes on to accept and acknowledge."""
    with GymStack(*SLOW, runtime="local").with_replicas(MODEL, 2) as stack:
        pid = replica(stack.status(), "policy-model-1").pid
        assert pid is not None
        check(asyncio.run(collect_through(stack, lambda: os.kill(pid, signal.SIGSTOP))))


@pytest.mark.parametrize("way", ["directly", "through the router"])
def test_rollouts_of_a_stopped_agent_finish_on_the_other_replica(way: str) -> None:
    """Behind the router its silence is the stack's to notice: the router itself is well."""
    options = replace(OPTIONS, through_router=way == "through the router")
    with GymStack(*SLOW, runtime="local").with_replicas(AGENT, 2) as stack:
        pid = replica(stack.status(), "stateful-counter-simple-agent-1").pid
        assert pid is not None
        check(asyncio.run(collect_through(stack, lambda: os.kill(pid, signal.SIGSTOP), options)))


@pytest.fixture(scope="module")
def doubled() -> Iterator[GymStack]:
    """A stack of two models and two agents; a test that takes one of them away gives it back."""
    need_engine()
    with GymStack(*SLOW, runtime="compose").with_replicas(MODEL, 2).with_replicas(AGENT, 2) as stack:
        yield stack


@pytest.mark.docker
@pytest.mark.parametrize("how", ["paused", "cut off"])
@pytest.mark.parametrize("who", ["policy-model", "stateful-counter-simple-agent"])
def test_rollouts_of_a_server_that_cannot_be_reached_finish_on_the_other_replica(
    doubled: GymStack, how: str, who: str
) -> None:
    """Agents are behind the router, whose connections to them stay open when they are cut off."""
    victim = replica(doubled.status(), f"{who}-1").container
    layout = Layout(doubled.folder / ".gym" / "gym")
    eventually(lambda: healthy_replicas(layout, who.replace("-", "_")), lambda count: count == 2)
    with pausing(victim) if how == "paused" else cutting_off(victim) as take_away:
        check(asyncio.run(collect_through(doubled, take_away)))


@pytest.mark.docker
def test_five_seconds_without_a_network_cost_no_rollout() -> None:
    """The only model server there is. The stack above will not do: its router holds dead connections for minutes."""
    need_engine()
    with GymStack(*SLOW, runtime="compose") as stack:
        victim = replica(stack.status(), "policy-model-1").container

        async def disturb() -> None:
            with cutting_off(victim) as take_away:
                await asyncio.to_thread(take_away)
                await asyncio.sleep(5)

        check(asyncio.run(collect_through(stack, lambda: asyncio.ensure_future(disturb()))))


async def collect_through(
    stack: GymStack, disturb: Callable[[], object], options: AttemptOptions = OPTIONS
) -> list[dict[str, Any]]:
    """All rollouts; the disturbance comes when some are done and forty are under way."""
    rows, done = [json.loads(line) for line in ROWS.read_text().splitlines()], []
    disturbed: object = None
    async with asyncio.timeout(MOST_SECONDS):
        async for rollout in collect(stack.url, rows, repeats=REPEATS, options=options):
            done.append({"key": (rollout.row, rollout.repeat), "reward": rollout.reward, "failure": rollout.failure})
            if len(done) == 20:
                disturbed = disturb()
        if isinstance(disturbed, asyncio.Future):
            await disturbed
    return done


def check(done: list[dict[str, Any]]) -> None:
    """Each once, and none of them wrong."""
    rows = len(ROWS.read_text().splitlines())
    assert Counter(one["key"] for one in done) == Counter((row, at) for row in range(rows) for at in range(REPEATS))
    assert {one["reward"] for one in done} == {1.0}, Counter(str(one["failure"]) for one in done)


@contextmanager
def pausing(container: str) -> Iterator[Callable[[], None]]:
    with engine_client() as client:
        yield lambda: client.api.pause(container)
        client.api.unpause(container)


@contextmanager
def cutting_off(container: str) -> Iterator[Callable[[], None]]:
    """Takes it off the one network that it is on."""
    with engine_client() as client:
        (network,) = client.api.inspect_container(container)["NetworkSettings"]["Networks"]
        yield lambda: client.api.disconnect_container_from_network(container, network)
        client.api.connect_container_to_network(container, network, aliases=[container.rsplit("-", 1)[0]])
