"""The bridge to Atropos: scored data as its API wants them, whole groups once, and never more than may wait."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pytest

from gym.collect import Rollout
from gym.errors import InfraError, UserError
from gym.server.testing import running
from gym.trainers import RolloutGroup
from gym.trainers.atropos import AtroposOptions, has_room, serve
from gym.trainers.atropos_data import NotPosted, group_to_data
from tests.support.agents import FakeAgent, fake_agent
from tests.support.asgi import live, read_body

Json = dict[str, Any]


def call(prompt: list[int], generation: list[int], kind: str = "message") -> Json:
    ids = {"prompt_token_ids": prompt, "generation_token_ids": generation}
    fields: Json = {"content": "fine", "role": "assistant"}
    if kind == "function_call":
        fields = {"name": "look", "arguments": "{}", "call_id": "1"}
    return {"type": kind, **fields, **ids, "generation_log_probs": [-0.5] * len(generation)}


TOOL_OUTPUT = {"type": "function_call_output", "call_id": "1", "output": "sunny"}
TALK = [call([1, 2], [3], "function_call"), TOOL_OUTPUT, call([1, 2, 3, 9], [5])]


def rollout(repeat: int, *output: Json, reward: float = 1.0) -> Rollout:
    result = {"responses_create_params": {"input": "Hi"}, "response": {"output": list(output)}, "reward": reward}
    return Rollout(
        row=0, repeat=repeat, key=f"k{repeat}", agent="a", attempt=1, seconds=1, reward=reward, result=result
    )


def group(*rollouts: Rollout, size: int = 0) -> RolloutGroup:
    return RolloutGroup("rows", 0, 0, size or len(rollouts), rollouts, (0,) * len(rollouts))


def test_what_was_not_generated_is_masked_and_has_the_log_prob_that_says_so() -> None:
    found = group_to_data(group(rollout(0, *TALK, reward=0.5), rollout(1, call([1, 2], [4]), reward=0.0)), 3)
    assert found == {
        "tokens": [[1, 2, 3, 9, 5], [1, 2, 4]],
        "masks": [[-100, -100, 3, -100, 5], [-100, -100, 4]],
        "inference_logprobs": [[1.0, 1.0, -0.5, 1.0, -0.5], [1.0, 1.0, -0.5]],
        "scores": [0.5, 0.0],
        "env_id": 3,
    }


def test_each_message_has_a_role_and_a_content() -> None:
    (talk,) = group_to_data(group(rollout(0, *TALK)), 0, messages=True)["messages"]
    assert [one["role"] for one in talk] == ["user", "assistant", "tool", "assistant"]
    assert all("content" in one for one in talk)
    assert not [key for one in talk for key in one if "token" in key]


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (group(rollout(0, *TALK), size=2), "incomplete"),
        (group(rollout(0, *TALK), rollout(1, call([1], [2]), call([7], [8]))), "a rollout of several sequences"),
        (group(rollout(0, *TALK), rollout(1, TOOL_OUTPUT)), "a rollout without token ids"),
        (group(rollout(0, call([1], [2]) | {"generation_log_probs": []})), "token ids that do not line up"),
        (group(rollout(0, call([1, 2, 3, 4], [5]))), "too long"),
    ],
)
def test_a_group_that_cannot_be_reported_truly_is_left_out_with_a_reason(one: RolloutGroup, reason: str) -> None:
    with pytest.raises(NotPosted, match=reason):
        group_to_data(one, 0, max_tokens=5)


def test_a_trainer_without_a_limit_gets_sequences_of_any_length() -> None:
    assert group_to_data(group(rollout(0, call([1] * 99, [5]))), 0, max_tokens=-1)["scores"] == [1.0]


@pytest.mark.parametrize(
    ("waiting", "own", "weight", "least", "room"),
    [
        (0, 0, 1.0, None, True),
        (7, 7, 0.01, None, True),  # a first batch of 16 is filled by any group
        (8, 8, 1.0, None, True),
        (16, 16, 1.0, None, False),
        (8, 8, 0.5, None, False),  # its half of what may wait is there
        (8, 7, 0.5, None, True),
        (16, 3, 0.5, 0.25, True),  # a quarter of each batch is promised to it
        (16, 4, 0.5, 0.25, False),
    ],
)
def test_no_more_waits_for_the_trainer_than_two_batches_by_weight(
    waiting: int, own: int, weight: float, least: float | None, room: bool
) -> None:
    status = {"queue_size": waiting, "self_queue_size": own, "env_weight": weight}
    assert has_room(status, 16, 2, AtroposOptions(min_batch_allocation=least)) is room


@dataclass
class Api:
    """As much of the API as a bridge sees. Every look at the status takes a batch if there is one, where it says so."""

    starts_after: int = 0  # registrations
    batch: int = 4
    steps: int = -1
    takes: bool = True
    broken: str = ""
    step: int = 0
    most: int = 0  # groups that waited at once
    looks: int = 0
    queue: list[Json] = field(default_factory=list)
    posted: list[Json] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    bodies: dict[str, Json] = field(default_factory=dict)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await live(receive, send)
            return
        raw = await read_body(receive)
        path = scope["path"]
        self.asked.append((scope["method"], path))
        self.bodies[path] = orjson.loads(raw) if raw else {}
        reply = self.answer(path, self.bodies[path])
        status = 500 if path == self.broken else 200
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": orjson.dumps(reply)})

    def answer(self, path: str, body: Json) -> Json:
        if path == "/register-env" and len(self.asked) <= self.starts_after:
            return {"status": "wait for trainer to start"}
        if path == "/info":
            return {"batch_size": self.batch, "max_token_len": 100}
        if path == "/scored_data":
            self.queue.append(body)
            self.posted.append(body)
            self.most = max(self.most, len(self.queue))
        if path == "/status-env":
            return self.status()
        return {"status": "success", "env_id": 3, "num_steps": self.steps, "starting_step": 0}

    def status(self) -> Json:
        self.looks += 1
        size = self.bodies["/register-env"]["group_size"]
        if self.takes and len(self.queue) * size >= self.batch and self.looks % 3 == 0:
            del self.queue[: self.batch // size]
            self.step += 1
        waiting = len(self.queue)
        return {"queue_size": waiting, "self_queue_size": waiting, "current_step": self.step, "env_weight": 1.0}


@pytest.fixture(scope="module")
def agent() -> Iterator[FakeAgent]:
    with fake_agent() as one:
        yield one


OPTIONS = AtroposOptions(name="lab", weight=2.0, poll=0.01)


def row(number: int, **fake: Any) -> Json:
    extra = {"response": {"output": [call([number], [7])]}}
    return {"responses_create_params": {"input": "Hi"}, "fake": {"odd": True, "extra": extra, **fake}}


async def test_whole_groups_are_posted_once_and_what_failed_is_not_a_score(agent: FakeAgent) -> None:
    rows = [row(0), row(1, fail_times=-1), row(2), row(3, extra={}), row(4)]
    api = Api(starts_after=3)
    async with running(api) as url:
        bridge = await serve(agent.url, rows, {"size": 2, "max_attempts": 1}, OPTIONS, api=f"{url}/")
    assert api.asked[:4] == [("POST", "/register-env")] * 4
    assert api.bodies["/register-env"] == {
        "max_token_length": 32768,
        "desired_name": "lab",
        "weight": 2.0,
        "group_size": 2,
        "min_batch_allocation": None,
    }
    assert sorted(one["tokens"] for one in api.posted) == [[[n, 7], [n, 7]] for n in (0, 2, 4)]
    assert all(sorted(one["scores"]) == [0.0, 1.0] and one["env_id"] == 3 for one in api.posted)
    assert (bridge.posted, bridge.skipped) == (3, {"incomplete": 1, "a rollout without token ids": 1})
    assert api.asked[-1] == ("POST", "/disconnect-env")
    assert api.bodies["/disconnect-env"] == {"env_id": 3}


async def test_the_bridge_waits_for_the_trainer_and_ends_with_its_steps(agent: FakeAgent) -> None:
    api = Api(steps=3)
    async with running(api) as url:
        options = {"size": 2, "epochs": None, "concurrency": 4}
        bridge = await serve(agent.url, [row(0), row(1)], options, OPTIONS, api=url)
    assert (api.step, api.most) == (3, 4)  # two batches of two groups, and no group more
    assert 6 <= bridge.posted <= 10
    assert api.asked[-1] == ("POST", "/disconnect-env")


async def test_a_trainer_that_takes_nothing_stops_the_posts_until_it_is_cancelled(agent: FakeAgent) -> None:
    api = Api(takes=False)
    async with running(api) as url:
        work = asyncio.create_task(serve(agent.url, [row(0)], {"size": 2, "epochs": None}, OPTIONS, api=url))
        async with asyncio.timeout(30):
            while api.looks < 50:
                await asyncio.sleep(0.01)
        work.cancel()
        await asyncio.wait({work})
    assert (len(api.posted), work.cancelled(), api.asked[-1]) == (4, True, ("POST", "/disconnect-env"))


@pytest.mark.parametrize("path", ["/scored_data", "/status-env", "/info"])
async def test_an_api_that_fails_ends_the_bridge_and_nothing_is_posted_again(agent: FakeAgent, path: str) -> None:
    api = Api(broken=path)
    async with running(api) as url:
        with pytest.raises(InfraError, match=f"{path} answered 500"):
            await serve(agent.url, [row(0), row(1)], {"size": 2}, OPTIONS, api=url)
    assert api.asked.count(("POST", "/scored_data")) == (path == "/scored_data")
    assert api.asked[-1] == ("POST", "/disconnect-env")


async def test_what_can_never_work_is_said_at_once(agent: FakeAgent) -> None:
    with pytest.raises(InfraError, match="cannot be reached"):
        await serve(agent.url, [row(0)], {"size": 2}, OPTIONS, api="http://127.0.0.1:9")
    async with running(Api()) as url:
        with pytest.raises(UserError, match="groups of 3 never make up a batch of 4"):
            await serve(agent.url, [row(0)], {"size": 3}, OPTIONS, api=url)
    async with running(Api(starts_after=10**9)) as url:
        with pytest.raises(InfraError, match="no trainer began"):
            await serve(agent.url, [row(0)], {"size": 2}, replace(OPTIONS, timeout=0.05), api=url)


async def test_a_stack_that_says_no_token_ids_does_not_go_on_for_ever(agent: FakeAgent) -> None:
    api = Api()
    async with running(api) as url:
        with pytest.raises(UserError, match="51 groups in a row could not be posted"):
            await serve(agent.url, [row(0, extra={})], {"size": 2, "epochs": None}, OPTIONS, api=url)
    assert api.posted == []
