"""Every behaviour that a provider must show is shown through the broker as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym.broker.conformance.suite import BEHAVIOURS, BehaviourResult, run_suite
from gym.broker.provider import Abilities
from gym.sandbox.broker_client import Sandboxes
from gym.wire.sandbox import Grant
from tests.support.sandbox_broker import TOKEN, broker_process
from tests.support.sandbox_subject import make_factory

GRANT = Grant(images=("*",), warm=0, max_memory=64 << 30, max_pids=32768, max_cpus=64)
OTHERWISE = ("streamed output is bounded too",)  # over HTTP the cut is marked in the stream itself
BEHAVED = tuple(one for one in BEHAVIOURS if not one.name.startswith(OTHERWISE))


@pytest.mark.parametrize(
    ("provider", "image", "warm"),
    [
        ("subprocess", "host", 0),
        ("subprocess", "host", 4),
        pytest.param("docker", "python:3.13-slim", 4, marks=pytest.mark.docker),
    ],
)
async def test_the_suite_passes_over_http(tmp_path: Path, provider: str, image: str, warm: int) -> None:
    with broker_process(tmp_path, provider, grant=GRANT.model_copy(update={"warm": warm})) as broker:
        async with Sandboxes(broker.url, TOKEN) as sandboxes:
            abilities = (await sandboxes.status())["abilities"]
            reported = Abilities(**{**abilities, "networks": tuple(abilities["networks"])})
            outcomes = await run_suite(
                make_factory(sandboxes), reported, image=image, behaviours=BEHAVED, flood=300_000_000
            )
            left = await sandboxes.alive()
            hits = 'verb="claim",outcome="hit"' in (await sandboxes.call("GET", "/metrics")).body.decode()
    assert not [outcome for outcome in outcomes if outcome.state == "failed"], show(outcomes)
    assert sum(outcome.state == "passed" for outcome in outcomes) >= 40, show(outcomes)
    assert not left
    assert hits == bool(warm)


def show(outcomes: tuple[BehaviourResult, ...]) -> str:
    return "\n".join(f"{outcome.state}: {outcome.name}: {outcome.why}" for outcome in outcomes)
