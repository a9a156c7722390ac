"""Sessions in a real Redis: any replica serves them, no update is lost, and a call that is resent counts once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from gym.errors import GymError, UserError
from gym.http.pool import HttpClient, Reply
from gym.http.redis_link import RedisRefused
from gym.labels import HEADER_CALL
from gym.server import ResourcesServer, Row, VerifyRequest, tool
from gym.server.gymnasium import GymnasiumServer
from gym.server.replicas import Peers, Replica
from gym.server.rollout_client import RolloutClient
from gym.server.shared_sessions import SharedSessions
from gym.server.state_types import state_adapter
from gym.server.testing import running
from tests.support.own_redis import PrivateRedis

ROW = b'{"responses_create_params": {"input": "x"}}'
VERIFY = b'{"responses_create_params": {"input": "x"}, "response": {"output": []}}'


@dataclass
class Count:
    number: int = 0
    names: set[str] = field(default_factory=set)


class Counter(ResourcesServer[Count]):
    let_go = 0

    async def seed(self, row: Row) -> Count:
        return Count(10)

    @tool
    async def add(self, amount: int, state: Count) -> int:
        """Adds, slowly."""
        number = state.number
        await asyncio.sleep(0)
        state.number = number + amount
        state.names.add(str(amount))
        return state.number

    async def verify(self, rollout: VerifyRequest, state: Count) -> float:
        return float(state.number)

    async def close(self, state: Count) -> None:
        type(self).let_go += 1


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[PrivateRedis]:
    one = PrivateRedis(tmp_path, "a-canary-of-state")
    yield one
    one.close()


@asynccontextmanager
async def replicas(redis: PrivateRedis, **fields: Any) -> AsyncIterator[tuple[str, str, HttpClient]]:
    http = HttpClient()
    settings = {"state": redis.url, **fields}
    async with running(Counter.app(settings)) as one, running(Counter.app(settings)) as two:
        try:
            yield one, two, http
        finally:
            await http.aclose()


async def ask(http: HttpClient, url: str, body: bytes, cookie: bytes = b"", call: bytes = b"") -> Reply:
    headers = [(b"cookie", cookie)] if cookie else []
    headers += [(HEADER_CALL.encode(), call)] if call else []
    return await http.request("POST", url, body=body, headers=headers, timeout=30)


async def seed(http: HttpClient, url: str) -> bytes:
    reply = await ask(http, f"{url}/seed_session", ROW)
    assert reply.status == 200, reply.body
    return (reply.header(b"set-cookie") or b"").partition(b";")[0]


async def test_any_replica_serves_a_session_and_verify_ends_it(redis: PrivateRedis) -> None:
    async with replicas(redis) as (one, two, http):
        cookie = await seed(http, one)
        assert (await ask(http, f"{two}/add", b'{"amount": 5}', cookie)).body == b"15"
        assert (await ask(http, f"{one}/add", b'{"amount": 1}', cookie)).body == b"16"
        before = Counter.let_go
        verified = await ask(http, f"{two}/verify", VERIFY, cookie, b"v")
        assert b'"reward":16.0' in verified.body
        assert (await ask(http, f"{one}/verify", VERIFY, cookie, b"v")).body == verified.body
        assert Counter.let_go > before
        lost = await ask(http, f"{one}/add", b'{"amount": 1}', cookie)
        assert b"lost_session" in lost.body
        closed = await seed(http, one)
        assert (await ask(http, f"{two}/close_session", b"{}", closed)).body == b'{"closed":true}'
        assert (await ask(http, f"{one}/close_session", b"{}", closed)).body == b'{"closed":false}'
    assert "a-canary" not in (redis.folder / "redis.log").read_text("utf-8")


async def test_over_tls_with_a_certificate_of_its_own(tmp_path: Path) -> None:
    redis = PrivateRedis(tmp_path, "a-canary-of-state", tls=True)
    try:
        async with replicas(redis, state=f"{redis.url}?ssl_ca_certs={tmp_path / 'ca.pem'}") as (one, two, http):
            cookie = await seed(http, one)
            assert (await ask(http, f"{two}/add", b'{"amount": 5}', cookie)).body == b"15"
        sessions = SharedSessions(redis.url, "counter", TypeAdapter(Count), 60)
        with pytest.raises(RedisRefused, match="certificate that is not known here") as refused:
            await sessions.begin()
        await sessions.aclose()
        assert "ssl_ca_certs=FILE" in str(refused.value)
        assert "a-canary" not in str(refused.value)
    finally:
        redis.close()


async def test_a_valkey_does_as_well_as_a_redis(tmp_path: Path) -> None:
    valkey = PrivateRedis(tmp_path, "a-canary-of-state", program="valkey-server")
    try:
        url = f"valkey{valkey.url.removeprefix('redis')}"
        async with replicas(valkey, state=url) as (one, two, http):
            cookie = await seed(http, one)
            assert (await ask(http, f"{two}/add", b'{"amount": 5}', cookie, b"c")).body == b"15"
            assert (await ask(http, f"{one}/add", b'{"amount": 5}', cookie, b"c")).body == b"15"
            assert b'"reward":15.0' in (await ask(http, f"{one}/verify", VERIFY, cookie, b"v")).body
    finally:
        valkey.close()


async def test_concurrent_calls_of_one_session_lose_no_update(redis: PrivateRedis) -> None:
    async with replicas(redis) as (one, two, http):
        cookie = await seed(http, one)
        urls = [one, two] * 10
        replies = await asyncio.gather(*(ask(http, f"{url}/add", b'{"amount": 1}', cookie) for url in urls))
        assert sorted(int(reply.body) for reply in replies) == list(range(11, 31))


async def test_a_call_that_is_sent_again_is_answered_as_before_and_counts_once(redis: PrivateRedis) -> None:
    async with replicas(redis) as (one, two, http):
        cookie = await seed(http, one)
        for url in (one, two, one):
            assert (await ask(http, f"{url}/add", b'{"amount": 5}', cookie, b"same")).body == b"15"
        assert (await ask(http, f"{two}/add", b'{"amount": 5}', cookie, b"other")).body == b"20"


async def test_a_session_ends_with_its_time_and_a_redis_that_is_gone_is_a_failure(redis: PrivateRedis) -> None:
    async with replicas(redis, session_ttl_seconds=0.001) as (one, two, http):
        cookie = await seed(http, one)
        await asyncio.to_thread(_wait_until_gone, redis)
        assert b"lost_session" in (await ask(http, f"{two}/add", b'{"amount": 5}', cookie)).body
        redis.kill()
        failed = await ask(http, f"{two}/verify", VERIFY, cookie)
        assert failed.status >= 500
        assert b'"kind":"resources"' in failed.body
        assert b'"retryable":true' in failed.body
        assert b"canary" not in failed.body


def _wait_until_gone(redis: PrivateRedis) -> None:
    while ":session:" in redis.ask("keys", "*"):
        continue


async def test_a_client_goes_on_at_another_replica_when_its_own_is_killed(redis: PrivateRedis, tmp_path: Path) -> None:
    """The connection to it breaks; nothing is lost, and no attempt starts again."""
    http = HttpClient()
    async with running(Counter.app({"state": redis.url})) as stays:
        leaving = running(Counter.app({"state": redis.url}))
        leaves = await leaving.__aenter__()
        peers = Peers("", {"counter": leaves}, http)
        client = RolloutClient(http, peers, seconds=60, resources_server="counter")
        async with client:
            await client.seed(ROW)
            assert await client.call_tool("add", b'{"amount": 5}') == (200, "15")
            peers._instances["counter"].append(Replica(stays))
            await leaving.__aexit__(None, None, None)
            assert await client.call_tool("add", b'{"amount": 5}') == (200, "20")
            assert b'"reward":20.0' in await client.verify(ROW, {"responses_create_params": {}}, {"output": []})
    await http.aclose()


@dataclass
class Locked:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass
class Nested:
    inside: list[Locked]


@dataclass
class Hidden:
    made: int = field(init=False, default=0)


class Plain:
    pass


@pytest.mark.parametrize(
    ("kind", "said"),
    [(Nested, "Locked.lock is asyncio.locks.Lock"), (Hidden, "Hidden.made is a field"), (Plain, "Plain")],
)
def test_a_state_that_cannot_be_given_on_is_refused_with_class_and_field(kind: type, said: str) -> None:
    async def seed(self: Any, row: Row) -> Any: ...

    seed.__annotations__["return"] = kind
    with pytest.raises(UserError) as error:
        state_adapter(Counter, seed)
    assert said in str(error.value)


class Episodes(GymnasiumServer[int]):
    pass


async def test_what_cannot_be_shared_and_a_wrong_address_end_the_start(redis: PrivateRedis) -> None:
    cases: list[tuple[type[ResourcesServer[Any]], str, str]] = [
        (Episodes, redis.url, "keeps its sessions in its own process"),
        (Counter, "redis://127.0.0.1/name", "not a number of a database"),
        (Counter, redis.url.replace("a-canary", "another"), "does not take this user or password"),
    ]
    for server, address, said in cases:
        app = server.app({"state": address})
        with pytest.raises(GymError, match=said) as error:
            await app.start()
        assert "a-canary" not in str(error.value)
        assert "another-of" not in str(error.value)


def test_a_server_without_the_key_imports_no_redis() -> None:
    script = "import sys, gym.server.resources, gym.collect.collection; print('redis' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
