"""The reward endpoint that OpenRLHF's `--reward.remote_url` asks: an environment of a stack verifies each answer.

    python -m gym.trainers.openrlhf_reward http://127.0.0.1:11000 mcqa --port 5000

What fails is an HTTP error; a request with one answer that failed has no reward at all.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import os
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx
import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gym.client import AsyncStack
from gym.errors import InfraError, first_error
from gym.labels import ENV_TOKEN
from gym.trainers.openrlhf import read_row
from gym.wire import items
from gym.wire.failures import RolloutError, error_from_reply

Json = dict[str, Any]
SPECIAL: Final = re.compile(r"<\|[a-z_]{1,40}\|>|</s>|<eos>|<pad>|<end_of_turn>|\s+")
TIMEOUT: Final = 170.0  # OpenRLHF waits 180


def reward_app(stack: AsyncStack, environment: str) -> Starlette:
    async def answer(request: Request) -> Response:
        try:
            rewards = await _judge_all(stack, environment, await request.body())
        except RolloutError as error:
            return Response(error.to_body(), error.status, media_type="application/json")
        except InfraError as error:
            return JSONResponse({"error": {"message": str(error)}}, 503)
        return JSONResponse({"rewards": rewards, "scores": rewards, "extra_logs": {}})

    @asynccontextmanager
    async def close(app: Starlette) -> AsyncGenerator[None]:
        async with stack:
            yield

    return Starlette(routes=[Route("/get_reward", answer, methods=["POST"])], lifespan=close)


async def _judge_all(stack: AsyncStack, environment: str, body: bytes) -> list[float]:
    asked = read_request(body)
    try:
        async with asyncio.TaskGroup() as tasks:
            judged = [tasks.create_task(judge(stack, environment, row, answer)) for row, answer in asked]
    except ExceptionGroup as errors:
        raise first_error(errors) from None
    return [one.result() for one in judged]


async def judge(stack: AsyncStack, environment: str, row: Json, answer: str) -> float:
    """A session of the environment for this answer alone."""
    seeded = _check(await stack.post(environment, "/seed_session", row), environment)
    reply = items.response([items.message(answer)], model="policy", params=row["responses_create_params"])
    asked = {**row, "response": reply}
    verified = _check(await stack.post(environment, "/verify", asked, cookies=dict(seeded.cookies)), environment)
    reward = verified.json().get("reward")
    if isinstance(reward, bool | int | float) and math.isfinite(reward):
        return float(reward)
    raise RolloutError("resources", f"verify gave no reward: {str(reward)[:100]}", server=environment)


def read_request(body: bytes) -> list[tuple[Json, str]]:
    """`{query, prompts, labels}`: rows with their answers, which are what a query has beyond its prompt."""
    try:
        asked = orjson.loads(body)
        parts = list(zip(asked["query"], asked["prompts"], asked["labels"], strict=True))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        raise RolloutError("row", 'the body has to be {"query": [], "prompts": [], "labels": []}') from None
    return [(read_row(label), _cut_prompt(query, prompt)) for query, prompt, label in parts]


def _cut_prompt(query: str, prompt: str) -> str:
    at = query.find(prompt)  # the tokenizer's own beginning may stand before it
    if at < 0:
        what = "the query does not hold its prompt: it was cut, or the tokenizer writes it in another way"
        raise RolloutError("row", f"{what}: {query[:100]!r}")
    return _cut_end(query[at + len(prompt) :])


def _cut_end(answer: str) -> str:
    """Without the special tokens that OpenRLHF leaves at its end. In one pass: a policy may write very many."""
    begin, end = len(answer), 0
    for found in SPECIAL.finditer(answer):
        begin = begin if found.start() == end and end else found.start()
        end = found.end()
    return answer[:begin] if end == len(answer) else answer


def _check(reply: httpx.Response, environment: str) -> httpx.Response:
    if reply.status_code < 400:
        return reply
    raise error_from_reply(reply.status_code, reply.content, server=environment, kind="resources")


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m gym.trainers.openrlhf_reward")
    parser.add_argument("url", help="of the stack")
    parser.add_argument("environment", help="whose verify gives the rewards")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=5000)
    given = parser.parse_args(words)
    stack = AsyncStack.connect(given.url, token=os.environ.get(ENV_TOKEN, "").strip(), timeout=TIMEOUT)
    uvicorn.run(reward_app(stack, given.environment), host=given.host, port=given.port)


if __name__ == "__main__":
    main()
