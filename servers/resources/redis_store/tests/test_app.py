"""redis_store on a real socket, with a real Redis: whose store is whose, and what a Redis that dies is worth."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from own_redis import PASSWORD, OwnRedis

from gym.server.serve import load_app
from gym.server.testing import Caller, running

HERE = Path(__file__).parents[1]
pytestmark = pytest.mark.asyncio


@pytest.fixture
def redis() -> Iterator[OwnRedis]:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not on this machine: apt-get install redis-server")
    own = OwnRedis()
    yield own
    own.kill()
    own.reserved.close()


@asynccontextmanager
async def store(redis: OwnRedis) -> AsyncIterator[Caller]:
    fields = {"redis": f"127.0.0.1:{redis.port}", "redis_password": PASSWORD}
    app = load_app(HERE / "app.py").configured(fields, name="redis_store")
    async with running(app) as url, Caller(url) as caller:
        yield caller


def row(store: dict[str, str], expected: dict[str, str]) -> dict[str, Any]:
    return {"responses_create_params": {"input": "x"}, "store": store, "expected_store": expected}


async def verify(caller: Caller, of: dict[str, Any]) -> Any:
    return await caller.post("/verify", of | {"response": {"output": []}})


def keys_of(redis: OwnRedis) -> list[str]:
    argv = ("redis-cli", "-p", str(redis.port), "--no-auth-warning", "-a", PASSWORD, "keys", "*")
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()


async def test_the_store_must_end_as_the_row_says(redis: OwnRedis) -> None:
    task = row({"a": "1", "b": "x"}, {"a": "3", "c": "new"})
    async with store(redis) as caller:
        await caller.post("/seed_session", task)
        assert (await caller.post("/list_keys")).body == {"keys": ["a", "b"]}
        assert (await caller.post("/increment_value", {"key": "a", "amount": 2})).body == {"value": 3}
        assert (await caller.post("/delete_key", {"key": "b"})).body == {"deleted": True}
        assert (await caller.post("/set_value", {"key": "c", "value": "new"})).body == {"success": True}
        reply = (await verify(caller, task)).body
    assert (reply["reward"], reply["final_store"]) == (1.0, {"a": "3", "c": "new"})
    assert keys_of(redis) == []


async def test_two_rollouts_have_two_stores(redis: OwnRedis) -> None:
    async with store(redis) as one, Caller(one.url) as other:
        await one.post("/seed_session", row({"a": "1"}, {"a": "2"}))
        await other.post("/seed_session", row({"a": "10"}, {}))
        await asyncio.gather(
            one.post("/increment_value", {"key": "a", "amount": 1}), other.post("/delete_key", {"key": "a"})
        )
        assert (await verify(one, row({}, {"a": "2"}))).body["reward"] == 1.0
        assert (await verify(other, row({}, {}))).body["reward"] == 1.0


async def test_calls_of_one_turn_may_run_at_the_same_time(redis: OwnRedis) -> None:
    async with store(redis) as caller:
        await caller.post("/seed_session", row({"a": "0"}, {"a": "50"}))
        await asyncio.gather(*(caller.post("/increment_value", {"key": "a", "amount": 1}) for _ in range(50)))
        assert (await verify(caller, row({}, {"a": "50"}))).body["reward"] == 1.0


async def test_a_redis_that_is_gone_is_a_failure_to_be_retried(redis: OwnRedis) -> None:
    async with store(redis) as caller:
        await caller.post("/seed_session", row({"a": "1"}, {"a": "1"}))
        redis.kill()
        for reply in (
            await caller.post("/get_value", {"key": "a"}),
            await verify(caller, row({}, {"a": "1"})),
            await caller.post("/seed_session", row({"a": "1"}, {})),
        ):
            assert (reply.status, reply.body["error"]["kind"], reply.body["error"]["retryable"]) == (
                500,
                "resources",
                True,
            )
            assert PASSWORD not in str(reply.body)


async def test_a_store_that_redis_has_lost_is_not_an_empty_store(redis: OwnRedis) -> None:
    async with store(redis) as caller:
        await caller.post("/seed_session", row({}, {}))
        redis.restart()
        replies = [await caller.post("/list_keys"), await caller.post("/list_keys"), await verify(caller, row({}, {}))]
    kinds = [reply.body["error"]["kind"] for reply in replies]
    assert kinds[1:] == ["lost_session", "lost_session"]  # the first may meet the connection that broke
    assert all(reply.body["error"]["retryable"] for reply in replies)


@pytest.mark.parametrize(("key", "amount"), [("text", 1), ("a", 2**63 - 1), ("a", 2**70)])
async def test_what_a_number_cannot_be_is_an_error_for_the_model(redis: OwnRedis, key: str, amount: int) -> None:
    start = {"text": "open", "a": "5"}
    async with store(redis) as caller:
        await caller.post("/seed_session", row(start, start))
        assert "error" in (await caller.post("/increment_value", {"key": key, "amount": amount})).body
        assert (await verify(caller, row(start, start))).body["reward"] == 1.0


async def test_a_store_has_its_limits(redis: OwnRedis) -> None:
    full = {str(number): "" for number in range(1000)}
    async with store(redis) as caller:
        await caller.post("/seed_session", row(full, full))
        assert "1000 keys" in (await caller.post("/set_value", {"key": "more", "value": ""})).body["error"]
        assert "characters" in (await caller.post("/set_value", {"key": "1", "value": "x" * 10_001})).body["error"]
        assert (await caller.post("/set_value", {"key": "1", "value": ""})).body == {"success": True}
        assert (await verify(caller, row(full, full))).body["reward"] == 1.0


async def test_a_store_that_no_one_closes_ends_by_itself(redis: OwnRedis) -> None:
    async with store(redis) as caller:
        await caller.post("/seed_session", row({"a": "1"}, {}))
        argv = ("redis-cli", "-p", str(redis.port), "--no-auth-warning", "-a", PASSWORD, "ttl")
        for key in keys_of(redis):
            left = subprocess.run((*argv, key), capture_output=True, text=True, check=True).stdout
            assert 3600 < int(left) <= 4200


async def test_verify_without_a_session_is_a_failure_and_no_reward(redis: OwnRedis) -> None:
    async with store(redis) as caller:
        reply = await verify(caller, row({}, {}))
    assert (reply.status, reply.body["error"]["kind"]) == (422, "row")
    assert "seed_session" in reply.body["error"]["message"]


async def test_a_server_without_a_redis_does_not_start() -> None:
    app = load_app(HERE / "app.py").configured({}, name="redis_store")
    with pytest.raises(RuntimeError):
        async with running(app):
            pass
    assert "${service:redis}" in str(app.failure)
