"""Parts of a stack die or change in the middle of a run: none is lost, none doubled, no failure becomes a reward."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gym.collect import AttemptOptions, collect
from gym.runtime.status import StackStatus
from tests.support.docker import Stand, end_processes, engine_client, replicas, stand_in

pytestmark = pytest.mark.docker

ROWS = Path(__file__).parents[2] / "servers" / "resources" / "stateful_counter" / "data" / "example.jsonl"
SLOWLY = ("policy_model.responses_api_models.scripted.latency_seconds=0.1",)
OPTIONS = AttemptOptions(concurrency=16, timeout=120, max_attempts=8, backoff=0.2)


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    with stand_in(tmp_path) as stand:
        yield stand


async def collect_while(
    status: StackStatus, repeats: int, disturb: Callable[[], Awaitable[None]], *, after: int = 10
) -> list[dict[str, Any]]:
    """All rollouts of the example rows, disturbed once a few are done."""
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()]
    done: list[dict[str, Any]] = []
    disturbance: asyncio.Task[None] | None = None
    async for rollout in collect(status.router, rows, repeats=repeats, options=OPTIONS):
        done.append({"key": (rollout.row, rollout.repeat), "reward": rollout.reward, "failure": rollout.failure})
        if len(done) == after:
            disturbance = asyncio.ensure_future(disturb())
    assert disturbance is not None
    await disturbance
    assert Counter(one["key"] for one in done) == Counter(
        (row, repeat) for row in range(len(rows)) for repeat in range(repeats)
    )
    return done


async def test_a_replica_the_router_and_an_agent_may_die_in_mid_run(stand: Stand) -> None:
    counts = {"stateful_counter": 3, "stateful_counter_simple_agent": 2}
    status = await asyncio.to_thread(stand.up, "stateful_counter", replicas=counts, overrides=SLOWLY)
    names = replicas(status)

    async def disturb() -> None:
        for victim in ("stateful-counter-2", "router", "stateful-counter-simple-agent-1"):
            await asyncio.to_thread(crash, names[victim])
            await asyncio.sleep(0.5)

    done = await collect_while(status, 40, disturb)
    assert {one["reward"] for one in done} == {1.0}, Counter(str(one["failure"]) for one in done)


async def test_scaling_up_and_down_under_load_gives_no_wrong_reward(stand: Stand) -> None:
    status = await asyncio.to_thread(stand.up, "stateful_counter", overrides=SLOWLY)

    async def disturb() -> None:
        for count in (3, 1):
            counts = {"stateful_counter": count}
            await asyncio.to_thread(stand.runtime.scale, stand.home, counts, stand.seen.append, timeout=180)

    done = await collect_while(status, 40, disturb)
    assert {one["reward"] for one in done} == {1.0}, Counter(str(one["failure"]) for one in done)


async def test_a_verifier_may_be_replaced_in_mid_run(stand: Stand) -> None:
    """It drains, its sessions are lost and reported as lost, and their rollouts are retried: none of them ends at 0."""
    folder = stand.cwd / "servers" / "resources" / "stateful_counter"
    shutil.copytree(ROWS.parents[1], folder)
    status = await asyncio.to_thread(stand.up, "stateful_counter", overrides=SLOWLY)

    async def disturb() -> None:
        (folder / "app.py").write_text((folder / "app.py").read_text() + "# another one\n")
        await asyncio.to_thread(stand.up, "stateful_counter", overrides=SLOWLY)

    done = await collect_while(status, 40, disturb)
    assert {one["reward"] for one in done} == {1.0}, Counter(str(one["failure"]) for one in done)


def crash(container: str) -> None:
    """The router's image has no shell to do it from inside: the engine stops it, and starts it again."""
    if container.endswith("-router-1"):
        with engine_client() as client:
            client.api.kill(container)
            client.api.start(container)
        return
    end_processes(container)
