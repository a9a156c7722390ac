"""The reward function of trainers that generate by themselves, before an environment that does what a test says."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from gym.collect import AttemptOptions
from gym.errors import InfraError
from gym.server.testing import running
from gym.trainers.unsloth import make_reward_func, read_questions
from tests.support.asgi import live, read_body

QUICK = AttemptOptions(backoff=0.01, max_attempts=3, timeout=30)
ROW = {"responses_create_params": {"input": [{"role": "user", "content": "Say A."}]}, "expected_answer": "A"}


class Environment:
    """The answer's text says how often it fails first, with which status, and what is replied at last."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[dict[str, Any]] = []
        self.tries: Counter[str] = Counter()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await live(receive, send)
            return
        body = await read_body(receive)
        status, reply = self.answer(json.loads(body)) if scope["path"] == "/s/quiz/verify" else (404, b"")
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": reply})

    def answer(self, asked: dict[str, Any]) -> tuple[int, bytes]:
        self.asked.append(asked)
        text = asked["response"]["output"][0]["content"][0]["text"]
        times, status, reply = text.split(" ", 2)
        self.tries[text] += 1
        return (int(status), b'{"error": "x"}') if self.tries[text] <= int(times) else (200, reply.encode())


@pytest_asyncio.fixture
async def environment() -> AsyncIterator[Environment]:
    made = Environment()
    async with running(made) as made.url:
        yield made


async def score(environment: Environment, *texts: str) -> list[float | None]:
    """As a trainer calls it: without an event loop, or within one."""
    func = make_reward_func(environment.url, "quiz", options=QUICK)
    said = [[{"role": "assistant", "content": text}] for text in texts]
    rows = [json.dumps(ROW)] * len(texts)
    return await asyncio.to_thread(func, prompts=["x"] * len(texts), completions=said, row=rows, other=1)


async def test_each_answer_gets_its_verdict_in_order(environment: Environment) -> None:
    texts = [f'0 0 {{"reward": {number / 8}}}' for number in range(9)]
    assert await score(environment, *texts) == [number / 8 for number in range(9)]
    assert environment.asked[0].keys() == {*ROW, "response"}
    assert environment.asked[0]["expected_answer"] == "A"


async def test_what_fails_is_asked_again_and_then_has_no_reward(environment: Environment) -> None:
    good = '{"reward": 0}'
    texts = [f"2 503 {good}", f"3 503 {good}", f"9 422 {good}", "0 0 []", '0 0 {"reward": NaN}']
    assert await score(environment, *texts) == [0.0, None, None, None, None]
    assert [environment.tries[text] for text in texts] == [3, 3, 1, 3, 3]


async def test_when_nothing_was_verified_it_says_why(environment: Environment) -> None:
    with pytest.raises(InfraError, match="not one of 2 answers was verified.*answered 500"):
        await score(environment, "9 500 x", "9 500 y")


async def test_an_environment_that_is_away_is_not_a_reward_of_zero() -> None:
    gone = Environment()
    async with running(gone) as gone.url:
        pass
    with pytest.raises(InfraError, match="not one of 1 answers was verified.*cannot be reached"):
        await score(gone, "0 0 x")


def test_questions_are_the_messages_of_rows(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    plain = {"responses_create_params": {"input": "Say B."}, "id": 10**29 + 7}
    file.write_text(f"{json.dumps(ROW)}\n{json.dumps(plain)}\n")
    found = read_questions(file)
    assert [one["prompt"][0]["content"] for one in found] == ["Say A.", "Say B."]
    assert [json.loads(one["row"]) for one in found] == [ROW, plain]
