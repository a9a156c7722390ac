"""The reward endpoint for OpenRLHF, before an environment of the SDK: sessions, answers, and failures that stay so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from gym.client import AsyncStack
from gym.http.pool import HttpClient
from gym.server import ResourcesServer, Row, VerifyRequest
from gym.server.testing import running
from gym.trainers.openrlhf_reward import reward_app
from gym.wire.failures import RolloutError

Json = dict[str, Any]


class WordRow(Row):
    wants: str = ""


class WordTask(VerifyRequest):
    wants: str = ""


@dataclass
class Seeded:
    wants: str


class Words(ResourcesServer[Seeded]):
    """1 where the answer is the one that its session was seeded with."""

    async def seed(self, row: WordRow) -> Seeded:
        return Seeded(row.wants)

    async def verify(self, rollout: WordTask, state: Seeded | None) -> float:
        assert state is not None, "no session"
        await asyncio.sleep(0)
        if state.wants == "outage":
            raise RolloutError("judge", "the judge is down")
        if state.wants == "bug":
            raise ZeroDivisionError
        return float(rollout.output_text == state.wants)


class Router:
    """Takes off the prefix that a router takes off."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope.get("path", "").removeprefix("/s/words")
        await self.app({**scope, "path": path, "raw_path": path.encode()}, receive, send)


@asynccontextmanager
async def endpoint(environment: str = "words") -> AsyncIterator[str]:
    async with (
        running(Router(Words.app())) as stack,
        running(reward_app(AsyncStack.connect(stack), environment)) as url,
    ):
        yield url


async def ask(url: str, body: Any) -> tuple[int, Json]:
    http = HttpClient(asks_health=False)
    reply = await http.request("POST", f"{url}/get_reward", body=orjson.dumps(body), timeout=30)
    await http.aclose()
    found: Json = orjson.loads(reply.body)
    return reply.status, found


def label(wants: str) -> str:
    return orjson.dumps({"responses_create_params": {"input": "Hi"}, "wants": wants}).decode()


def request(*pairs: tuple[str, str]) -> Json:
    """Wanted words and answers."""
    prompt = "<|user|>Hi<|end|><|assistant|>"
    queries = [f"{prompt}{answer}" for _, answer in pairs]
    return {"query": queries, "prompts": [prompt] * len(pairs), "labels": [label(wants) for wants, _ in pairs]}


async def test_each_answer_is_verified_in_a_session_of_its_own_row() -> None:
    pairs = [("a", "a"), ("b", "a"), ("c", "c<|im_end|>\n"), ("d", "d</s>"), ("e", " e"), ("", "")]
    pairs += [("", "<|im_end|>" * 20_000), ("f </s> g", "f </s> g</s></s>"), ("h", "h" + " " * 200_000)]
    async with endpoint() as url:
        status, reply = await ask(url, request(*pairs))
    rewards = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0]
    assert (status, reply) == (200, {"rewards": rewards, "scores": rewards, "extra_logs": {}})


async def test_what_the_tokenizer_puts_before_the_prompt_is_not_part_of_the_answer() -> None:
    body = request(("a", "a"))
    body["query"] = [f"<s>{body['query'][0]}"]
    async with endpoint() as url:
        assert (await ask(url, body))[1]["rewards"] == [1.0]


@pytest.mark.parametrize(("wants", "kind"), [("outage", "judge"), ("bug", "resources")])
async def test_one_failure_of_the_infrastructure_is_an_error_and_no_reward_for_any(wants: str, kind: str) -> None:
    async with endpoint() as url:
        status, reply = await ask(url, request(("a", "a"), (wants, "a")))
    assert status >= 500
    assert (reply["error"]["kind"], "rewards" in reply) == (kind, False)


async def test_a_stack_that_is_down_or_lacks_the_environment_is_an_error() -> None:
    async with running(reward_app(AsyncStack.connect("http://127.0.0.1:9"), "words")) as url:
        status, reply = await ask(url, request(("a", "a")))
    assert (status, "cannot be reached" in reply["error"]["message"]) == (503, True)
    async with endpoint("missing") as url:
        status, reply = await ask(url, request(("a", "a")))
    assert (status >= 400, "rewards" in reply) == (True, False)


@pytest.mark.parametrize(
    "change",
    [
        {"labels": ["no row"]},
        {"labels": []},
        {"labels": [""]},
        {"prompts": ["something else"]},
        {"query": None},
    ],
)
async def test_a_request_that_cannot_be_read_is_refused(change: Json) -> None:
    async with endpoint() as url:
        status, reply = await ask(url, request(("a", "a")) | change)
    assert (status, reply["error"]["kind"]) == (422, "row")
