"""One row, one `/run`: a reward, or an error, and never a 0 in the place of one."""

from __future__ import annotations

from typing import Any

import pytest

from gym.client import AsyncStack
from gym.errors import InfraError, UserError
from gym.trainers.run import run_row
from gym.wire.failures import RolloutError
from tests.support.fake_peer import failed, fake_peer, verified

ROW = {"responses_create_params": {"input": "Hi"}, "agent_ref": {"name": "one"}}


async def test_a_row_goes_to_its_agent_once() -> None:
    async with fake_peer(lambda _, __, row: (200, verified(row, reward=0))) as peer, AsyncStack(peer.url) as stack:
        assert (await run_row(stack, ROW, agent="other"))["reward"] == 0
        assert (await run_row(stack, {"responses_create_params": {}}, agent="other"))["reward"] == 0
    assert [(method, path) for method, path, _ in peer.asked] == [("POST", "/s/one/run"), ("POST", "/s/other/run")]


@pytest.mark.parametrize(
    ("status", "reply", "said"),
    [
        (503, failed("lost_session", "its replica is gone"), "its replica is gone"),
        (502, failed("model", "no answer"), "no answer"),
        (500, {"detail": "broken"}, "answered 500"),
        (200, {"response": {"output": []}}, "holds no reward"),
        (200, verified({}, reward=None), "which is not a number"),
        (200, verified({}, reward="NaN"), "which is not a number"),
        (200, verified({}, reward=True), "which is not a number"),
        (200, verified({}, reward=0.0, _ng_failure_class="sandbox"), "sandbox"),
        (200, verified({}, reward=0.0, _ng_no_persist=True), "not to keep"),
    ],
)
async def test_what_has_no_reward_is_an_error(status: int, reply: dict[str, Any], said: str) -> None:
    async with fake_peer(lambda *_: (status, reply)) as peer, AsyncStack(peer.url) as stack:
        with pytest.raises(RolloutError, match=said):
            await run_row(stack, ROW)
    assert len(peer.asked) == 1


async def test_a_stack_that_is_not_there_is_an_error() -> None:
    async with fake_peer(lambda *_: (200, {})) as peer:
        pass
    async with AsyncStack(peer.url) as stack:
        with pytest.raises(InfraError, match="cannot be reached"):
            await run_row(stack, ROW)
        with pytest.raises(UserError, match="names no agent"):
            await run_row(stack, {"responses_create_params": {}})
