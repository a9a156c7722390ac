"""The runner job of Agent Lightning before a server of its routes: a reward is an event, a failure never has one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from gym.errors import InfraError, UserError
from gym.trainers.agent_lightning import GymAgent, read_job, read_row, run_job
from gym.wire.failures import RolloutError
from tests.support.fake_peer import NEVER, Answer, FakePeer, Json, failed, fake_peer, verified

ROW = {"responses_create_params": {"input": "Hi"}, "agent_ref": {"name": "one"}}
PROXY = "http://127.0.0.1:9/proxy/rollout/r1/attempt/0/mode/train/openai/v1"


@dataclass
class Both:
    stack: FakePeer
    server: FakePeer
    environ: dict[str, str] = field(default_factory=dict)

    def posted(self, method: str) -> list[tuple[str, Json]]:
        return [(path, body) for how, path, body in self.server.asked if how == method]


@asynccontextmanager
async def both(
    run: Answer, *, given: Any = ROW, refuses: str = "", key: str = "", seconds: float = 60
) -> AsyncIterator[Both]:
    """The stack and the server that the job stands between; the server answers 500 to the method that it `refuses`."""

    def serve(method: str, _path: str, _body: Json) -> tuple[int, Any]:
        rollout = {"rollout_id": "r1", "input": given, "config": {"timeout_seconds": seconds}}
        return (500, {"detail": "broken"}) if method == refuses else (200, {"rollout": rollout, "attempts": []})

    async with fake_peer(run) as stack, fake_peer(serve) as server:
        events = f"{server.url}/api/rollouts/r1/attempt/0/events"
        environ = {"AGL_OPENAI_BASE_URL": PROXY, "AGL_EVENT_URL": events, "AGL_KEY": key, "GYM_URL": stack.url}
        yield Both(stack, server, environ)


def scored(_method: str, _path: str, row: Json) -> tuple[int, Any]:
    return 200, verified(row, reward=0.25, reason="half of it")


async def test_a_rollout_is_run_once_with_its_proxy_as_the_policy_and_its_reward_is_an_event() -> None:
    async with both(scored, key="k" * 9) as found:
        assert await run_job(found.environ) == 0.25
    (asked,) = found.stack.asked
    assert asked == ("POST", "/s/one/run", {**ROW, "policy_base_url": PROXY, "policy_api_key": "k" * 9})
    assert found.posted("GET") == [("/api/rollouts/r1", {})]
    data = {"value": 0.25, "source": "agent", "reason": "half of it"}
    assert found.posted("POST") == [
        ("/api/rollouts/r1/attempt/0/events", {"event_type": "reward", "data": data}),
    ]
    assert found.posted("PATCH") == []  # the controller says that it succeeded
    assert set(found.server.keys) == {f"Bearer {'k' * 9}"}


async def test_an_input_may_have_the_row_as_text_and_the_agent_may_be_said_by_the_job() -> None:
    given = {"row": orjson.dumps({"responses_create_params": {"input": "Hi"}}).decode(), "data_id": "d"}
    async with both(scored, given=given) as found:
        await run_job(found.environ | {"GYM_AGENT": "two", "GYM_TOKEN": "t"})
    (asked,) = found.stack.asked
    assert asked == ("POST", "/s/two/run", {"responses_create_params": {"input": "Hi"}, "policy_base_url": PROXY})
    assert found.stack.keys == ["Bearer t"]
    assert set(found.server.keys) == {""}


@pytest.mark.parametrize(
    "run",
    [
        lambda *_: (503, failed("lost_session", "its replica is gone")),
        lambda *_: (422, failed("row", "its replica is gone: no such row", retryable=False)),
        lambda *_: (200, verified({}, reward=0.0, _ng_failure_class="its replica is gone")),
    ],
)
async def test_what_failed_is_failed_and_set_aside_and_has_no_reward(run: Answer) -> None:
    async with both(run) as found:
        with pytest.raises(RolloutError, match="its replica is gone"):
            await run_job(found.environ)
    assert len(found.stack.asked) == 1
    assert found.posted("POST") == []
    ((path, body),) = found.posted("PATCH")
    assert path == "/api/rollouts/r1"
    assert (body["status"]["state"], body["status"]["last_attempt_id"]) == ("failed", "failed")
    assert "its replica is gone" in body["status"]["error_message"]


async def test_a_rollout_that_takes_too_long_is_failed_before_the_controller_would_kill_the_job() -> None:
    async with both(lambda *_: NEVER, seconds=0.5) as found:
        with pytest.raises(InfraError, match=r"no answer within 0\.45 s"):
            await run_job(found.environ)
    assert [body["status"]["state"] for _, body in found.posted("PATCH")] == ["failed"]


async def test_a_reward_that_was_not_taken_is_a_failure() -> None:
    async with both(scored, refuses="POST") as found:
        with pytest.raises(InfraError, match="answered 500"):
            await run_job(found.environ)
    assert [body["status"]["state"] for _, body in found.posted("PATCH")] == ["failed"]


async def test_a_server_that_takes_no_failure_either_still_ends_the_job_with_an_error() -> None:
    async with both(lambda *_: (500, {}), refuses="PATCH") as found:
        with pytest.raises(InfraError, match="PATCH"):
            await run_job(found.environ)
    assert found.posted("POST") == []


async def test_a_server_that_is_not_there_is_an_error_before_anything_is_run() -> None:
    async with both(scored) as found:
        gone = found.environ | {"AGL_EVENT_URL": "http://127.0.0.1:9/api/rollouts/r1/attempt/0/events"}
        with pytest.raises(InfraError, match="still there"):
            await run_job(gone)
    assert found.stack.asked == []


async def test_what_a_job_needs_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="not set: AGL_OPENAI_BASE_URL, AGL_EVENT_URL, GYM_URL"):
        read_job({})
    for name in ("AGL_OPENAI_BASE_URL", "AGL_EVENT_URL", "GYM_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match="env_map"):
        await GymAgent().run()


@pytest.mark.parametrize("given", ["text", None, ["a"], {"row": "[1]"}])
def test_an_input_that_is_not_a_row_is_refused(given: Any) -> None:
    with pytest.raises(UserError, match="not a row"):
        read_row(given)


def test_a_row_as_text_keeps_large_integers() -> None:
    assert read_row({"row": '{"id": 123456789012345678901}'}) == {"id": 123456789012345678901}


def test_no_key_is_shown() -> None:
    job = read_job(
        {"AGL_OPENAI_BASE_URL": "u", "AGL_EVENT_URL": "e", "GYM_URL": "s", "AGL_KEY": "k9", "GYM_TOKEN": "t9"}
    )
    assert "k9" not in repr(job)
    assert "t9" not in repr(job)
