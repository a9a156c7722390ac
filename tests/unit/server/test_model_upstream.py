"""Calls to a provider on a real socket: what is retried, what is not, and what is said when it fails."""

from __future__ import annotations

import asyncio
import gzip
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from gym.errors import UserError
from gym.server import limiter, upstream
from gym.server.provider_replies import is_overflow, retry_after, upstream_words
from gym.server.testing import running
from gym.server.upstream import CallContext, Upstream, UpstreamError, caller
from gym.wire.failures import RolloutError
from tests.support.asgi import live
from tests.support.fake_openai import Failure, FakeOpenAI, fake_openai

ASK = {"model": "m", "input": "hi"}


class Narrow:
    """An ASGI provider that bears so many calls at once."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.now = self.refused = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await live(receive, send)
            return
        body = (await receive())["body"]
        self.now += 1
        status = 200 if self.now <= self.room else 429
        self.refused += status == 429
        for _ in range(20):
            await asyncio.sleep(0)
        self.now -= 1
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def upstream_of(provider: FakeOpenAI, **options: Any) -> AsyncIterator[Upstream]:
    opened = Upstream(provider.url, **options)
    try:
        yield opened
    finally:
        await opened.aclose()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upstream, "FIRST_WAIT", 0.01)
    monkeypatch.setattr(limiter, "FIRST_PAUSE", 0.001)


@pytest.fixture
def dead_url() -> str:
    """An address without a listener."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{unused.getsockname()[1]}/v1"


async def test_a_reply_comes_back_parsed_and_headers_and_query_go_out() -> None:
    async with (
        fake_openai() as provider,
        upstream_of(provider, headers={"x-a": "1"}, query={"api-version": "2"}) as asked,
    ):
        reply = await asked.post("/responses", ASK)
    assert reply["output"][0]["content"][0]["text"] == "echo hi"
    [request] = provider.asked
    assert (request.path, request.query, request.headers["x-a"]) == ("/v1/responses", "api-version=2", "1")


@pytest.mark.parametrize("status", sorted(upstream.RETRY_STATUSES))
async def test_a_refusal_for_now_is_retried(status: int) -> None:
    failures = [Failure(status, headers={"retry-after": "0.02"}), Failure(status)]
    async with fake_openai(failures=failures) as provider, upstream_of(provider) as asked:
        await asked.post("/responses", ASK)
    assert len(provider.asked) == 3


@pytest.mark.parametrize("status", [429, 504])
async def test_retries_end_after_so_many_tries_and_the_failure_stays_retryable_as_a_whole_attempt(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limiter, "REFUSED_TIMEOUT_SECONDS", 0)  # no call has been let through for too long
    failures = [Failure(status, {"error": {"message": "slow down"}}) for _ in range(9)]
    async with fake_openai(failures=failures) as provider, upstream_of(provider, attempts=3) as asked:
        with pytest.raises(RolloutError, match=rf"answered {status}: slow down \(3 tries\)") as caught:
            await asked.post("/responses", ASK)
        assert asked.last_error == caught.value.message
    assert len(provider.asked) == 3
    assert (caught.value.kind, caught.value.retryable, caught.value.status) == ("model", True, 502)


async def test_a_storm_of_refusals_slows_the_calls_and_fails_none() -> None:
    """The provider bears three at once and refuses every further one, without a word on when to come back."""
    provider = Narrow(3)
    async with running(provider) as url:
        asked = Upstream(url, attempts=2)
        replies = await asyncio.gather(*(asked.post("/responses", {"number": number}) for number in range(60)))
        health = asked.health()["upstream"]
        await asked.aclose()
    assert sorted(reply["number"] for reply in replies) == list(range(60))
    assert health["throttled"] == provider.refused > 2
    assert health["at_once"] < 30


async def test_a_pause_beyond_the_deadline_fails_its_own_call_and_holds_back_no_other() -> None:
    failures = [Failure(429, {"error": "slow down"}, {"retry-after": "60"})]
    async with fake_openai(failures=failures) as provider, upstream_of(provider) as asked:
        caller.set(CallContext(deadline=asyncio.get_running_loop().time() + 5))
        with pytest.raises(RolloutError, match="answered 429: slow down") as caught:
            await asked.post("/responses", ASK)
        assert (caught.value.kind, caught.value.retryable) == ("model", True)
        await asked.post("/responses", ASK)
    assert len(provider.asked) == 2


async def test_a_wait_beyond_the_rollouts_deadline_is_not_begun() -> None:
    caller.set(CallContext(deadline=asyncio.get_running_loop().time() + 5))
    failures = [Failure(503, {"error": "busy"}, {"retry-after": "60"})]
    async with fake_openai(failures=failures) as provider, upstream_of(provider) as asked:
        with pytest.raises(RolloutError, match="answered 503: busy"):
            await asked.post("/responses", ASK)
    assert len(provider.asked) == 1


async def test_an_exhausted_quota_is_not_asked_again() -> None:
    failures = [Failure(429, {"error": {"message": "no money", "code": "insufficient_quota"}})]
    async with fake_openai(failures=failures) as provider, upstream_of(provider) as asked:
        with pytest.raises(RolloutError, match="no money") as caught:
            await asked.post("/responses", ASK)
    assert (len(provider.asked), caught.value.retryable) == (1, False)


@pytest.mark.parametrize(
    ("status", "retryable", "expected"),
    [(400, False, 422), (422, False, 422), (401, False, 502), (404, False, 502), (500, True, 502)],
)
async def test_other_refusals_are_final_for_this_call(status: int, retryable: bool, expected: int) -> None:
    failures = [Failure(status, {"error": {"message": "no"}})]
    async with fake_openai(failures=failures) as provider, upstream_of(provider) as asked:
        with pytest.raises(UpstreamError, match=f"answered {status}: no") as caught:
            await asked.post("/responses", ASK)
    assert len(provider.asked) == 1
    assert (caught.value.answered, caught.value.retryable, caught.value.status) == (status, retryable, expected)


async def test_a_secret_that_a_provider_repeats_is_masked() -> None:
    async with (
        fake_openai(api_key="right") as provider,
        upstream_of(provider, headers={"authorization": "Bearer sk-secret1"}, secrets=("sk-secret1", "")) as asked,
    ):
        with pytest.raises(RolloutError, match=r"Incorrect API key provided: Bearer \*\*\*\*") as caught:
            await asked.post("/responses", ASK)
    assert "sk-secret1" not in f"{caught.value} {caught.value.message}"


async def test_a_refused_endpoint_is_one_clear_message_that_names_the_url(dead_url: str) -> None:
    asked = Upstream(dead_url.replace("http://", "http://user:pw@"), attempts=2)
    with pytest.raises(RolloutError) as caught:
        await asked.post("/responses", ASK)
    await asked.aclose()
    assert asked.health() == {"upstream": {"urls": [dead_url], "last_error": caught.value.message}}
    assert f"cannot reach the model at {dead_url}/responses: connection refused" in caught.value.message
    assert "(2 tries)" in caught.value.message
    assert "pw" not in caught.value.message
    assert caught.value.retryable


async def test_the_next_url_serves_when_the_first_is_down(dead_url: str) -> None:
    async with fake_openai() as provider:
        asked = Upstream([dead_url, provider.url])
        for key in "abcdef":
            caller.set(CallContext(key=key))
            assert await asked.post("/responses", ASK)
        await asked.aclose()
    assert len(provider.asked) == 6


async def test_a_key_always_goes_to_the_same_url_and_no_key_takes_turns() -> None:
    async with fake_openai() as one, fake_openai() as two:
        asked = Upstream([one.url, two.url])
        for key in ["a"] * 4 + ["b"] * 4 + ["c"] * 4 + ["d"] * 4:
            caller.set(CallContext(key=key))
            await asked.post("/responses", {**ASK, "user": key})
        by_key = [{request.body["user"] for request in provider.asked} for provider in (one, two)]
        caller.set(CallContext())
        before = len(one.asked)
        for _ in range(4):
            await asked.post("/responses", ASK)
        await asked.aclose()
    assert by_key[0] | by_key[1] == set("abcd")
    assert not by_key[0] & by_key[1]
    assert len(one.asked) - before == 2


async def test_a_connection_that_breaks_after_the_request_is_not_tried_again() -> None:
    accepted = 0

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        accepted += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    asked = Upstream(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    with pytest.raises(RolloutError, match="broke after the request was sent") as caught:
        await asked.post("/responses", ASK)
    await asked.aclose()
    server.close()
    await server.wait_closed()
    assert (accepted, caught.value.kind, caught.value.retryable) == (1, "model", True)


async def test_a_provider_that_hangs_costs_its_timeout() -> None:
    gate, gone = asyncio.Event(), asyncio.Event()

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await gate.wait()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        gone.set()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    asked = Upstream(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", timeout=2)  # connecting counts
    with pytest.raises(RolloutError, match="had not answered when the time was up") as caught:
        await asked.post("/responses", ASK)
    gate.set()
    await gone.wait()
    await asked.aclose()
    server.close()
    await server.wait_closed()
    assert caught.value.kind == "timeout"


async def test_no_more_requests_are_under_way_than_allowed() -> None:
    now = most = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal now, most
        while head := await reader.readuntil(b"\r\n\r\n"):
            size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(size)
            now += 1
            most = max(most, now)
            for _ in range(5):
                await asyncio.sleep(0)
            now -= 1
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")
            await writer.drain()
            writer.close()
            return

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    asked = Upstream(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", max_concurrent=2)
    await asyncio.gather(*(asked.post("/responses", ASK) for _ in range(12)))
    await asked.aclose()
    server.close()
    await server.wait_closed()
    assert 1 <= most <= 2


async def test_an_answer_that_is_not_an_object_is_a_retryable_failure() -> None:
    async with fake_openai(failures=[Failure(200, b"<html>")]) as provider, upstream_of(provider) as asked:
        with pytest.raises(RolloutError, match="answered 200 with no JSON object: <html>") as caught:
            await asked.post("/responses", ASK)
    assert caught.value.retryable


async def test_an_encoding_that_was_not_asked_for_is_named() -> None:
    packed = [Failure(200, gzip.compress(b"{}"), {"content-encoding": "gzip"})]
    async with fake_openai(failures=packed) as provider, upstream_of(provider) as asked:
        with pytest.raises(
            RolloutError, match="no JSON object: its body is in gzip, which was not asked for"
        ) as caught:
            await asked.post("/responses", ASK)
    assert caught.value.retryable


async def test_a_redirect_is_shown_not_followed() -> None:
    failures = [Failure(308, b"", {"location": "https://elsewhere/v1"})]
    async with fake_openai(failures=failures) as provider, upstream_of(provider) as asked:
        with pytest.raises(RolloutError, match="answered 308: https://elsewhere/v1"):
            await asked.post("/responses", ASK)
    assert len(provider.asked) == 1


async def test_the_environments_proxy_is_used_and_no_proxy_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake_openai() as provider:
        monkeypatch.setenv("http_proxy", provider.url.removesuffix("/v1"))
        monkeypatch.setenv("no_proxy", "spared.example")
        asked = Upstream("http://provider.example/v1")
        await asked.post("/responses", ASK)
        await asked.aclose()
        spared = Upstream("http://spared.example/v1", attempts=1)
    assert provider.asked[0].headers["host"] == "provider.example"
    assert spared._endpoints.proxy("http://spared.example/v1") is None


@pytest.mark.parametrize("url", ["", "localhost:8000/v1", "ftp://x/v1", "http://"])
def test_a_base_url_that_is_none_is_refused_at_the_start(url: str) -> None:
    with pytest.raises(UserError, match="base URL is not an http"):
        Upstream(url)


@pytest.mark.parametrize(
    ("words", "overflow"),
    [
        ("This model's maximum context length is 4096 tokens", True),
        ("context_length_exceeded", True),
        ("max_tokens must be at least 1, got -3", True),
        ("Unsupported parameter: 'max_tokens' is not supported with this model", False),
        ("max_tokens: Extra inputs are not permitted", False),
        ("bad tool", False),
    ],
)
def test_an_overflow_is_distinguished_from_a_refused_parameter(words: str, overflow: bool) -> None:
    assert is_overflow(words) is overflow


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "2"}, 2.0),
        ({"retry-after-ms": "150"}, 0.15),
        ({}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_every_spelling_of_retry_after_is_read(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": {"message": "a"}}', "a"),
        (b'{"error": "b"}', "b"),
        (b'{"detail": "c"}', "c"),
        (b'{"message": "d"}', "d"),
        (b'{"odd": 1}', '{"odd":1}'),
        (b" plain ", "plain"),
    ],
)
def test_a_providers_own_words_are_found(body: bytes, words: str) -> None:
    assert upstream_words(body) == words


def test_a_server_that_only_stands_by_has_not_loaded_the_http_client() -> None:
    code = (
        "import sys; from gym.server.upstream import Upstream; Upstream('http://127.0.0.1:1/v1', max_concurrent=2);"
        "import gym.server; sys.exit('aiohttp' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
