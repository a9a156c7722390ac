"""stateful_counter on a real socket: whose counter is whose."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gym.server.serve import load_app
from gym.server.testing import Caller, read_lines, running

HERE = Path(__file__).parents[1]
ROWS = read_lines(HERE / "data" / "example.jsonl")

pytestmark = pytest.mark.asyncio


@asynccontextmanager
async def counter() -> AsyncIterator[Caller]:
    async with running(load_app(HERE / "app.py")) as url, Caller(url) as caller:
        yield caller


def row(initial: int, expected: int) -> dict[str, Any]:
    return {"responses_create_params": {"input": "count"}, "initial_count": initial, "expected_count": expected}


async def verify(caller: Caller, of: dict[str, Any]) -> Any:
    return (await caller.post("/verify", of | {"response": {"output": []}})).body


@pytest.mark.parametrize(("steps", "reward"), [((1, 2), 1.0), ((1,), 0.0), ((4, -1), 1.0), ((), 0.0)])
async def test_the_counter_must_stand_where_the_row_says(steps: tuple[int, ...], reward: float) -> None:
    async with counter() as caller:
        await caller.post("/seed_session", row(3, 6))
        for step in steps:
            assert (await caller.post("/increment_counter", {"count": step})).body == {"success": True}
        assert (await caller.post("/get_counter_value")).body == {"count": 3 + sum(steps)}
        reply = await verify(caller, row(3, 6))
    assert (reply["reward"], reply["final_count"]) == (reward, 3 + sum(steps))


async def test_two_rollouts_have_two_counters() -> None:
    async with counter() as one, Caller(one.url) as other:
        await one.post("/seed_session", row(0, 5))
        await other.post("/seed_session", row(100, 101))
        await one.post("/increment_counter", {"count": 5})
        await other.post("/increment_counter", {"count": 1})
        assert (await verify(one, row(0, 5)))["reward"] == 1.0
        assert (await verify(other, row(100, 101)))["reward"] == 1.0


async def test_calls_of_one_turn_may_run_at_the_same_time() -> None:
    async with counter() as caller:
        await caller.post("/seed_session", row(0, 10))
        await asyncio.gather(*(caller.post("/increment_counter", {"count": 1}) for _ in range(10)))
        assert (await verify(caller, row(0, 10)))["reward"] == 1.0


async def test_seeding_again_keeps_the_count() -> None:
    async with counter() as caller:
        await caller.post("/seed_session", row(3, 4))
        await caller.post("/increment_counter", {"count": 1})
        await caller.post("/seed_session", row(3, 4))
        assert (await caller.post("/get_counter_value")).body == {"count": 4}


async def test_without_a_seed_the_counter_begins_at_0_and_lives_on_by_its_cookie() -> None:
    async with counter() as caller:
        await caller.post("/increment_counter", {"count": 2})
        assert (await caller.post("/get_counter_value")).body == {"count": 2}


async def test_verify_without_a_session_is_a_failure_and_no_reward() -> None:
    async with counter() as caller:
        reply = await caller.post("/verify", row(3, 3) | {"response": {"output": []}})
    assert (reply.status, reply.body["error"]["kind"]) == (422, "row")
    assert "seed_session" in reply.body["error"]["message"]


async def test_a_session_that_is_gone_is_a_failure_and_no_reward() -> None:
    async with counter() as caller:
        await caller.post("/seed_session", row(3, 3))
        assert (await verify(caller, row(3, 3)))["reward"] == 1.0
        again = await caller.post("/verify", row(3, 3) | {"response": {"output": []}})
    assert again.status == 503
    assert again.body["error"]["kind"] == "lost_session"


@pytest.mark.parametrize("body", [{}, {"count": "many"}, {"count": None}, []])
async def test_a_bad_increment_is_reported_to_the_model(body: Any) -> None:
    async with counter() as caller:
        await caller.post("/seed_session", row(3, 3))
        assert (await caller.post("/increment_counter", body)).status == 422


async def test_a_row_without_a_count_is_the_rows_fault() -> None:
    async with counter() as caller:
        reply = await caller.post("/seed_session", {"responses_create_params": {"input": "x"}})
    assert (reply.status, reply.body["error"]["kind"]) == (422, "row")
    assert "initial_count" in reply.body["error"]["message"]


@pytest.mark.parametrize("example", ROWS)
async def test_the_steps_that_a_prompt_asks_for_reach_the_expected_count(example: dict[str, Any]) -> None:
    prompt = example["responses_create_params"]["input"][-1]["content"]
    words = prompt.replace(",", "").replace(".", "").split()
    steps = [int(words[index + 1]) for index, word in enumerate(words) if word.lower() == "add"]
    assert int(words[words.index("at") + 1]) == example["initial_count"]
    assert example["initial_count"] + sum(steps) == example["expected_count"]
