"""Unsloth, and other trainers that generate by themselves: a reward function that asks an environment to verify.

What could not be verified has no reward (None), never 0. For tasks of one answer: no tool is called here.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gym.client import AsyncStack
from gym.collect import AttemptOptions
from gym.data.row_parsing import PARAMS
from gym.errors import InfraError
from gym.trainers.trl import check_none_is_left_out, read_prompts
from gym.wire import items
from gym.wire.failures import RolloutError, error_from_reply

Json = dict[str, Any]
Completion = str | Sequence[Json]
RewardFunc = Callable[..., list[float | None]]


def read_questions(path: str | Path) -> list[Json]:
    """For `Dataset.from_list`: `prompt` as messages, and the row of a JSONL file, which the reward function needs."""
    rows = [one["prompt"] for one in read_prompts(path)]
    return [{"prompt": items.input_items(json.loads(row)[PARAMS].get("input")), "row": row} for row in rows]


def make_reward_func(
    url: str, environment: str, *, token: str = "", options: AttemptOptions | None = None
) -> RewardFunc:
    """`options`: tries and timeout of a verdict, and how many at once."""
    how = options or AttemptOptions()

    def environment_reward(*, completions: Sequence[Completion], row: Sequence[str], **_: Any) -> list[float | None]:
        asked = [_to_request(json.loads(one), said) for one, said in zip(row, completions, strict=True)]
        with ThreadPoolExecutor(1) as thread:  # a notebook has an event loop of its own
            found = thread.submit(asyncio.run, _verify_all(url, token, environment, asked, how)).result()
        failures = [one for one in found if isinstance(one, Exception)]
        if failures and len(failures) == len(found):
            raise InfraError(f"not one of {len(found)} answers was verified: {failures[0]}", "gym ps, gym logs")
        check_none_is_left_out(len(failures), len(found))
        return [None if isinstance(one, Exception) else one for one in found]

    return environment_reward


def _to_request(row: Json, completion: Completion) -> Json:
    text = completion if isinstance(completion, str) else str(completion[-1]["content"])
    return {**row, "response": {"object": "response", "output": [items.message(text)], "tools": []}}


async def _verify_all(
    url: str, token: str, environment: str, asked: Sequence[Json], how: AttemptOptions
) -> list[float | RolloutError | InfraError]:
    places = asyncio.Semaphore(how.concurrency)

    async def verify(body: Json) -> float | RolloutError | InfraError:
        async with places:
            return await _verify(stack, environment, body, how)

    async with AsyncStack.connect(url, token=token, timeout=how.timeout) as stack, asyncio.TaskGroup() as group:
        tasks = [group.create_task(verify(body)) for body in asked]
    return [task.result() for task in tasks]


async def _verify(
    stack: AsyncStack, environment: str, body: Json, how: AttemptOptions
) -> float | RolloutError | InfraError:
    for attempt in range(how.max_attempts):
        await asyncio.sleep(how.backoff * 2 ** (attempt - 1) if attempt else 0)
        found = await _ask(stack, environment, body)
        if isinstance(found, float) or (isinstance(found, RolloutError) and not found.retryable):
            break
    return found


async def _ask(stack: AsyncStack, environment: str, body: Json) -> float | RolloutError | InfraError:
    try:
        reply = await stack.post(environment, "/verify", body)
    except InfraError as error:
        return error
    if reply.status_code >= 400:
        return error_from_reply(reply.status_code, reply.content, server=environment, kind="resources")
    try:
        reward = float(reply.json()["reward"])
    except (ValueError, TypeError, KeyError):
        reward = math.nan
    if math.isfinite(reward):
        return reward
    return RolloutError("resources", f"its reply has no reward: {reply.text[:200]}", server=environment)
