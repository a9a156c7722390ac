"""Rollouts as ART reads them. ART is not installed here: its two containers are stood in for, `Choice` is openai's."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import orjson
import pytest
from openai.types.chat.chat_completion import Choice

from gym.client import AsyncStack
from gym.collect import Rollout
from gym.errors import UserError
from gym.trainers import RolloutGroup, art
from gym.wire import items
from gym.wire.failures import RolloutError
from tests.support.fake_peer import failed, fake_peer, verified

TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}}
PARAMS = {"input": [{"role": "user", "content": "How is it?"}], "instructions": "Be short.", "tools": [TOOL]}
ROW = {"responses_create_params": PARAMS, "agent_ref": {"name": "one"}}


@dataclass
class Trajectory:
    messages_and_choices: list[Any]
    reward: float
    tools: Any
    metrics: dict[str, Any]
    metadata: dict[str, Any]
    initial_policy_version: int | None
    final_policy_version: int | None


@dataclass
class TrajectoryGroup:
    trajectories: list[Trajectory]
    exceptions: list[BaseException] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)


@pytest.fixture(autouse=True)
def fake_art(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("art")
    vars(module).update(Trajectory=Trajectory, TrajectoryGroup=TrajectoryGroup)
    monkeypatch.setitem(sys.modules, "art", module)


def ids(prompt: list[int], generation: list[int]) -> dict[str, Any]:
    log_probs = [-0.25 * one for one in range(len(generation))]
    return {"prompt_token_ids": prompt, "generation_token_ids": generation, "generation_log_probs": log_probs}


def talk() -> list[dict[str, Any]]:
    """Two calls: a thought with a tool call, and an answer."""
    return [
        items.reasoning("I look."),
        items.function_call("look", '{"at": "it"}', call_id="c1") | ids([1, 2], [3, 4]),
        items.function_call_output("c1", "fine"),
        items.message("It is fine.") | ids([1, 2, 3, 4, 9], [5, 6, 7]),
    ]


def choices(found: Trajectory) -> list[Choice]:
    return [one for one in found.messages_and_choices if isinstance(one, Choice)]


async def test_a_rollout_becomes_a_trajectory_with_the_policys_own_ids() -> None:
    def answer(_method: str, _path: str, row: dict[str, Any]) -> tuple[int, Any]:
        return 200, verified(row, *talk(), reward=0.5, reward_components={"right": 0.3, "short": 0.2}, reason="so")

    async with fake_peer(answer) as peer, AsyncStack(peer.url) as stack:
        found = await art.rollout(stack, ROW)
    assert isinstance(found, Trajectory)
    assert found.reward == 0.5
    assert found.metrics == {"right": 0.3, "short": 0.2, "completion_tokens": 5}
    assert found.metadata == {"agent_ref": {"name": "one"}, "reason": "so"}
    roles = [one.message.role if isinstance(one, Choice) else one["role"] for one in found.messages_and_choices]
    assert roles == ["system", "user", "assistant", "tool", "assistant"]
    assert found.tools == [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]
    called, said = choices(found)
    assert (called.finish_reason, said.finish_reason) == ("tool_calls", "stop")
    assert called.message.tool_calls is not None
    assert [one.id for one in called.message.tool_calls] == ["c1"]
    assert called.message.content == "<think>I look.</think>"
    assert said.message.content == "It is fine."
    assert called.model_extra == {"prompt_token_ids": [1, 2], "token_ids": [3, 4]}
    assert said.model_extra == {"prompt_token_ids": [1, 2, 3, 4, 9], "token_ids": [5, 6, 7]}
    assert said.logprobs is not None
    assert said.logprobs.content is not None
    tokens = [(one.token, one.logprob) for one in said.logprobs.content]
    assert tokens == [("token_id:5", 0.0), ("token_id:6", -0.25), ("token_id:7", -0.5)]


def test_an_answer_that_was_cut_says_so() -> None:
    row = verified(ROW, *talk())
    row["response"]["incomplete_details"] = {"reason": "max_output_tokens"}
    assert [one.finish_reason for one in choices(art.to_trajectory(row))] == ["tool_calls", "length"]


def test_what_was_said_after_the_last_call_is_kept_and_not_trained_on() -> None:
    found = art.to_trajectory(verified(ROW, *talk(), items.message("Thanks.", role="user")))
    assert len(choices(found)) == 2
    assert found.messages_and_choices[-1]["role"] == "user"


@pytest.mark.parametrize("output", [[], [items.message("Hi")]])
def test_a_rollout_without_ids_is_an_error_and_no_trajectory_that_art_would_pass_over(output: list[Any]) -> None:
    with pytest.raises(UserError, match="no token ids"):
        art.to_trajectory(verified(ROW, *output))


def test_ids_that_do_not_line_up_are_an_error() -> None:
    call = items.message("Hi") | ids([1], [2, 3]) | {"generation_log_probs": [-1.0]}
    with pytest.raises(RolloutError, match="2 token ids and 1 log-probs"):
        art.to_trajectory(verified(ROW, call))


async def test_a_failure_is_raised_and_is_not_a_reward() -> None:
    async with fake_peer(lambda *_: (503, failed("sandbox", "gone"))) as peer, AsyncStack(peer.url) as stack:
        with pytest.raises(RolloutError, match="gone"):
            await art.rollout(stack, ROW)


async def test_arts_own_endpoint_answers_for_the_policy() -> None:
    model = SimpleNamespace(
        name="m", inference_base_url="http://a:1/v1", inference_api_key="k" * 9, get_inference_name=lambda: "m@3"
    )
    async with (
        fake_peer(lambda _, __, row: (200, verified(row, *talk()))) as peer,
        AsyncStack(peer.url) as stack,
    ):
        await art.rollout(stack, ROW, model=model)
    _, _, row = peer.asked[0]
    sent = {name: row[name] for name in row if name.startswith("policy_")}
    assert sent == {"policy_base_url": "http://a:1/v1", "policy_api_key": "k" * 9, "policy_model_name": "m@3"}


async def test_a_model_without_an_endpoint_is_refused_before_anything_is_sent() -> None:
    model = SimpleNamespace(name="m", inference_base_url=None)
    async with fake_peer(lambda *_: (200, {})) as peer, AsyncStack(peer.url) as stack:
        with pytest.raises(UserError, match=r"model\.register"):
            await art.rollout(stack, ROW, model=model)
    assert peer.asked == []


def test_a_group_keeps_its_failures_apart_and_says_the_versions() -> None:
    stamp = {"agent": "one", "policy_version": 3, "policy_version_ended": 4}
    line = orjson.dumps(verified(ROW, *talk(), _gym=stamp))
    good = Rollout(0, 0, "k0", "one", 1, 0.1, reward=1.0, line=line)
    bad = Rollout(0, 1, "k1", "one", 3, 0.1, failure=RolloutError("model", "no answer"))
    given = RolloutGroup("rows", 5, 1, 2, (good,), (3,), failures=(bad,))
    group = art.to_group(given)
    assert [(one.reward, one.initial_policy_version, one.final_policy_version) for one in group.trajectories] == [
        (1.0, 3, 4)
    ]
    assert group.exceptions == [bad.failure]
    assert group.metadata == {"source": "rows", "row": 5, "epoch": 1}
