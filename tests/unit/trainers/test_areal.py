"""The workflow as AReaL calls it, in both of its modes."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from gym.errors import UserError
from gym.trainers.areal import GymWorkflow
from gym.trainers.carried_rows import pack_row
from gym.wire.failures import RolloutError
from tests.support.agents import FakeAgent, fake_agent

PROXY, KEY = "http://127.0.0.1:1/proxy", "session-key-0123456789"


@pytest.fixture(scope="module")
def agent() -> Iterator[FakeAgent]:
    with fake_agent() as one:
        yield one


def data(**fake: Any) -> dict[str, Any]:
    return {"messages": [], **pack_row({"responses_create_params": {"input": "What?"}, "fake": fake})}


async def run(agent: FakeAgent, given: dict[str, Any]) -> Any:
    return await GymWorkflow(agent.url).run(given, base_url=PROXY, http_client=object(), api_key=KEY)


@pytest.mark.parametrize("reward", [0, 1, 0.25, -1.5])
async def test_the_reward_is_a_float_as_areal_insists(agent: FakeAgent, reward: float) -> None:
    found = await run(agent, data(extra={"reward": reward}))
    assert (type(found), found) == (float, reward)


async def test_a_row_that_is_refused_is_raised_too(agent: FakeAgent) -> None:
    with pytest.raises(RolloutError, match="no such row") as caught:
        await run(agent, data(fail_times=-1, status=422, words="no such row"))
    assert caught.value.kind == "row"


def test_areal_takes_it_for_a_workflow() -> None:
    assert asyncio.iscoroutinefunction(GymWorkflow("http://127.0.0.1:1").run)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"fail_times": -1, "body": {"error": {"kind": "sandbox", "message": "gone", "retryable": True}}}, "sandbox"),
        ({"drop": True}, "agent"),
        ({"raw": '{"reward": NaN}'}, "resources"),
        ({"raw": '{"response": {}}'}, "resources"),
        ({"raw": '{"reward": 0.0, "_ng_no_persist": true}'}, "agent"),
        ({"raw": '{"reward": 0.0, "_ng_failure_class": "lost"}'}, "agent"),
    ],
)
async def test_a_failure_is_raised_after_one_attempt_and_is_not_a_reward(
    agent: FakeAgent, fault: dict[str, Any], kind: str
) -> None:
    before = agent.stats()["runs"]
    with pytest.raises(RolloutError) as caught:
        await run(agent, data(**fault))
    assert caught.value.kind == kind
    assert agent.stats()["runs"] == before + 1  # AReaL would train on the calls of both attempts


async def test_a_timeout_is_raised_as_one(agent: FakeAgent) -> None:
    with pytest.raises(RolloutError) as caught:
        await GymWorkflow(agent.url, timeout=0.1).run(data(delay=60), base_url=PROXY, api_key=KEY)
    assert caught.value.kind == "timeout"


async def test_an_error_that_repeats_the_session_key_does_not_show_it(agent: FakeAgent) -> None:
    with pytest.raises(RolloutError) as caught:
        await run(agent, data(fail_times=-1, words=f"refused {KEY}"))
    assert "refused ****" in str(caught.value)


def test_in_a_process_of_its_own_the_endpoint_is_in_the_environment(
    agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow = pickle.loads(pickle.dumps(GymWorkflow(agent.url)))
    with pytest.raises(UserError, match="no endpoint"):
        asyncio.run(workflow.run(data()))
    monkeypatch.setenv("OPENAI_BASE_URL", PROXY)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert asyncio.run(workflow.run(data())) == 1.0
