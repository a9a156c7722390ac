"""Upstreams that rollouts bring along: how many are kept, what each is given, where they may lead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gym.server import policy_upstreams
from gym.server.policy_upstreams import PolicyUpstreams
from gym.server.upstream import CallContext, Upstream, caller
from gym.wire.allowed_hosts import AllowedHosts
from gym.wire.failures import RolloutError
from gym.wire.policy_endpoint import PolicyEndpoint
from tests.support.fake_openai import fake_openai

KEY = "sk-canary-0123456789"


@asynccontextmanager
async def upstreams(allowed: Any = "private", **options: Any) -> AsyncIterator[PolicyUpstreams]:
    made = PolicyUpstreams(AllowedHosts(allowed), **options)
    try:
        yield made
    finally:
        await made.aclose()


def endpoint(number: int, key: str = KEY) -> PolicyEndpoint:
    return PolicyEndpoint((f"http://127.0.0.1:1/sessions/{number}/v1",), key)


async def test_one_upstream_for_a_url_and_a_key() -> None:
    async with upstreams() as made:
        first = await made.find(endpoint(1))
        assert await made.find(PolicyEndpoint(endpoint(1).urls, KEY, model="another")) is first
        assert await made.find(endpoint(1, "sk-other")) is not first
        assert await made.find(endpoint(2)) is not first


async def test_idle_ones_are_forgotten_the_oldest_first_and_busy_ones_never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_upstreams, "MAX_IDLE", 10)
    async with upstreams() as made:
        busy = await made.find(endpoint(0))
        busy.in_flight = 1
        now = asyncio.get_running_loop().time()
        for number in range(1, 101):
            (await made.find(endpoint(number))).used = now
        assert made.status() == {"policy_endpoints": 10}
        assert await made.find(endpoint(0)) is busy
        busy.in_flight = 0
        for kept in made._kept.values():
            kept.used = now - policy_upstreams.IDLE_SECONDS - 1
        last = await made.find(endpoint(1000))
        assert list(made._kept.values()) == [last]


async def test_a_policys_upstream_has_the_servers_limit_and_its_own_limiter() -> None:
    async with upstreams(max_concurrent=3, timeout=7.0) as made:
        one, other = await made.find(endpoint(1)), await made.find(endpoint(2))
    assert one._limiter is not other._limiter
    assert (one._limiter.limit, one._timeout) == (3, 7.0)


async def test_calls_share_one_session_and_leave_none_open() -> None:
    async with fake_openai() as provider, upstreams() as made:
        upstream = Upstream("http://127.0.0.1:1/v1", policies=made)
        for number in range(3):
            policy = PolicyEndpoint((f"{provider.url}/{number}",), KEY, "m")
            caller.set(CallContext("", None, policy))
            await upstream.post("/responses", {"model": "x", "input": "hi"})
        session = made._session
        await upstream.aclose()
    assert session is not None
    assert session.closed
    assert [one.path for one in provider.asked] == [f"/v1/{number}/responses" for number in range(3)]
    assert {one.body["model"] for one in provider.asked} == {"m"}
    assert upstream.in_flight == 0


async def test_loopback_from_inside_a_container_is_the_machine_around_it() -> None:
    async with upstreams(host="host.docker.internal") as made:
        found = [
            (await made.find(PolicyEndpoint((url,)))).base_urls[0]
            for url in ("http://127.0.0.1:8000/v1", "http://localhost/v1", "http://10.0.0.7:1/v1", "http://[::1]:9/v1")
        ]
    inside = "http://host.docker.internal"
    assert found == [f"{inside}:8000/v1", f"{inside}/v1", "http://10.0.0.7:1/v1", f"{inside}:9/v1"]


async def test_a_configured_place_may_be_asked_and_its_other_ports_may_not() -> None:
    async with upstreams("none", configured=["http://10.0.0.7:8000/v1", "https://Models.example/v1"]) as made:
        await made.find(PolicyEndpoint(("http://10.0.0.7:8000/s/1/v1",), KEY))
        assert made.may_connect("models.example", 443, "10.0.0.9")
        assert not made.may_connect("models.example", 8080, "10.0.0.9")
        with pytest.raises(RolloutError, match="does not ask 10.0.0.7"):
            await made.find(PolicyEndpoint(("http://10.0.0.7:8001/v1",), KEY))


async def test_what_a_proxy_would_look_up_is_looked_up_here_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://10.0.0.1:3128")
    monkeypatch.delenv("no_proxy", raising=False)

    async def resolve(host: str, *_: Any, **__: Any) -> list[Any]:
        if host == "trainer.invalid":
            raise OSError("unknown")
        return [(2, 1, 6, "", ("10.0.0.5", 0))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    async with upstreams("public") as made:
        with pytest.raises(RolloutError, match="cannot be looked up here"):
            await made.find(PolicyEndpoint(("http://trainer.invalid/v1",)))
        with pytest.raises(RolloutError, match=r"inner.example, which is 10\.0\.0\.5"):
            await made.find(PolicyEndpoint(("http://inner.example/v1",)))
        assert not made.status()
    async with upstreams(["trainer.invalid"]) as made:
        await made.find(PolicyEndpoint(("http://trainer.invalid/v1",)))
        assert made.may_connect("10.0.0.1", 3128, "10.0.0.1")
