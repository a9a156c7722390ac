"""The hot routes: what reaches a handler, and what comes of it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import httpx
import orjson
import pytest
from fastapi import FastAPI

from gym.errors import UserError
from gym.http.pool import HttpClient
from gym.server import Route, Server, asgi
from gym.server.asgi import Answer, Call, HotRoutes, split_correlation
from gym.server.base import json_answer
from gym.server.request_body import MAX_BODY, read_body
from gym.server.testing import Caller, running
from gym.wire.failures import RolloutError
from gym.wire.rows import Row, VerifyResponse


class Panic(BaseException):
    """As libraries in Rust have it."""


class Echo(Server):
    server_type = "responses_api_agents"
    started = 0
    entered, cancelled = asyncio.Event(), asyncio.Event()

    def routes(self) -> list[Route]:
        return [
            Route("/echo", self.on_echo, "Say it again", Row, VerifyResponse),
            Route("/wait", self.on_wait),
            Route("/fail", self.on_fail),
            Route("/exit", self.on_exit),
            Route("/cancel", self.on_cancel),
            Route("/panic", self.on_panic),
        ]

    async def start(self) -> None:
        type(self).started += 1
        await asyncio.sleep(0)

    async def on_echo(self, call: Call) -> Answer:
        headers = {
            "method": call.method,
            "path": call.path,
            "rollout": call.rollout_id,
            "timeout": call.timeout,
            "cookies": call.cookies(),
            "host": (call.header(b"host") or b"").decode(),
            "size": len(call.body),
        }
        return json_answer(headers, ((b"x-more", b"1"),))

    async def on_wait(self, call: Call) -> Answer:
        type(self).entered.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            type(self).cancelled.set()
            raise
        raise AssertionError

    async def on_fail(self, call: Call) -> Answer:
        raise RolloutError("judge", "no verdict")

    async def on_exit(self, call: Call) -> Answer:
        raise SystemExit(2)

    async def on_cancel(self, call: Call) -> Answer:
        raise asyncio.CancelledError

    async def on_panic(self, call: Call) -> Answer:
        raise Panic("no luck")

    def extend(self, app: FastAPI) -> None:
        @app.get("/cool")
        async def cool(number: int) -> dict[str, int]:
            return {"number": number}

        @app.get("/broken")
        async def broken() -> None:
            raise RolloutError("sandbox", "no image")


async def test_a_call_reaches_its_handler_whole() -> None:
    async with running(Echo.app({}, name="echo")) as url, Caller(url) as caller:
        caller.cookies = {"a": "1", "b": "x=y"}
        reply = await caller.post("/echo", b"x" * 1_000_000, x_gym_rollout_id="7-1", x_gym_timeout="2.5")
    assert reply.body["size"] == 1_000_000
    assert reply.body["rollout"] == "7-1"
    assert reply.body["timeout"] == 2.5
    assert reply.body["cookies"] == {"a": "1", "b": "x=y"}
    assert reply.body["host"] == url.removeprefix("http://")
    assert reply.reply.header(b"x-more") == b"1"


@pytest.mark.parametrize(
    ("path", "plain", "rollout"),
    [
        ("/ng-rollout/7-1/echo", "/echo", "7-1"),
        ("/ng-rollout/7-1/training-token-capture/echo", "/echo", "7-1"),
        ("/ng-rollout/7-1", "/", "7-1"),
        ("/echo", "/echo", ""),
    ],
)
def test_a_path_may_carry_the_rollout(path: str, plain: str, rollout: str) -> None:
    assert split_correlation(path) == (plain, rollout)


async def test_a_prefixed_call_is_the_same_call() -> None:
    async with running(Echo.app({}, name="echo")) as url, Caller(url) as caller:
        reply = await caller.post("/ng-rollout/7-1/echo")
    assert (reply.body["path"], reply.body["rollout"]) == ("/echo", "7-1")


@pytest.mark.parametrize(("sent", "read"), [("nan", None), ("x", None), ("inf", None), ("-1", 0.001), ("1e12", None)])
async def test_a_timeout_that_is_none_is_none(sent: str, read: float | None) -> None:
    async with running(Echo.app({}, name="echo")) as url, Caller(url) as caller:
        # A deadline of the past would end the call before it could tell of it.
        if read is None:
            assert (await caller.post("/echo", x_gym_timeout=sent)).body["timeout"] is None
        else:
            assert (await caller.post("/wait", x_gym_timeout=sent)).status == 504


@pytest.mark.parametrize("look_after", [1.0, 0.0], ids=["soon", "after the caller was looked for"])
async def test_a_deadline_that_passes_ends_the_call(look_after: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "WATCH_AFTER_SECONDS", look_after)
    async with running(Echo.app({}, name="echo")) as url, Caller(url) as caller:
        reply = await caller.post("/wait", x_gym_timeout="0.01")
    assert reply.status == 504
    assert reply.body["error"]["kind"] == "timeout"
    assert reply.reply.header(b"x-gym-error") == b"timeout"


async def test_what_follows_a_call_that_ended_in_spite_of_its_deadline_is_not_cancelled() -> None:
    watch = asgi.CallerWatch()

    async def never() -> dict[str, Any]:
        raise AssertionError

    watch.watch(never, 0.0)
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(60)
    watch.forget()
    task = asyncio.current_task()
    assert task is not None
    assert (watch.expired, task.cancelling()) == (True, 0)


async def test_a_failure_has_its_status_its_body_and_its_header() -> None:
    async with running(Echo.app({}, name="echo")) as url, Caller(url) as caller:
        reply = await caller.post("/fail")
    assert reply.status == 500
    assert reply.body["error"] == {"kind": "judge", "server": "echo", "message": "no verdict", "retryable": True}
    assert reply.reply.header(b"x-gym-error") == b"judge"


@pytest.mark.parametrize(
    ("path", "says"), [("/exit", "SystemExit: 2"), ("/cancel", "CancelledError"), ("/panic", "Panic: no luck")]
)
async def test_code_that_would_end_the_server_fails_its_call_and_the_server_serves_on(path: str, says: str) -> None:
    async with running(Echo.app({}, name="echo")) as url, Caller(url) as caller:
        reply = await caller.post(path)
        assert reply.status == 500
        assert reply.body["error"]["message"].startswith(f"{says} (test_asgi.py:")
        assert (reply.body["error"]["kind"], reply.body["error"]["retryable"]) == ("agent", False)
        assert (await caller.post("/echo")).status == 200


async def test_everything_else_is_fastapis() -> None:
    async with running(Echo.app({}, name="echo")) as url, Caller(url) as caller:
        assert (await caller.get("/cool?number=3")).body == {"number": 3}
        assert (await caller.get("/cool?number=x")).status == 422
        assert (await caller.post("/nowhere")).status == 404
        assert (await caller.get("/")).body == {"status": "ok", "name": "echo", "type": "responses_api_agents"}
        health = (await caller.get("/healthz")).body
    assert (health["status"], health["name"]) == ("ok", "echo")


async def test_a_cool_route_fails_as_a_hot_one_does() -> None:
    async with running(Echo.app({}, name="echo")) as url, Caller(url) as caller:
        reply = await caller.get("/broken")
    assert (reply.status, reply.body["error"]["kind"]) == (500, "sandbox")


async def test_the_docs_tell_of_hot_and_cool_routes() -> None:
    async with running(Echo.app({}, name="echo")) as url, Caller(url) as caller:
        document = (await caller.get("/openapi.json")).body
        docs = await caller.get("/docs")
    assert set(document["paths"]) >= {"/echo", "/wait", "/cool", "/healthz"}
    body = document["paths"]["/echo"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body == {"$ref": "#/components/schemas/Row"}
    assert {"Row", "CreateParams", "VerifyResponse"} <= set(document["components"]["schemas"])
    assert docs.status == 200


async def test_without_a_lifespan_the_first_requests_start_the_server_once() -> None:
    Echo.started = 0
    app = Echo.app({}, name="echo")
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client, asyncio.TaskGroup() as group:
        replies = [group.create_task(client.post("/echo")) for _ in range(5)]
    assert [reply.result().status_code for reply in replies] == [200] * 5
    assert Echo.started == 1


async def test_a_server_whose_start_fails_never_listens(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Echo):
        async def start(self) -> None:
            raise UserError("no dictionary", "install one")

    with pytest.raises(RuntimeError, match="did not start"):
        async with running(Broken.app({}, name="broken")):
            raise AssertionError
    assert "no dictionary\ninstall one" in caplog.text


async def test_a_config_that_is_wrong_never_listens(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(RuntimeError, match="did not start"):
        async with running(Echo.app({"entripoint": "x"}, name="echo")):
            raise AssertionError
    assert "entripoint: no such field" in caplog.text


async def test_calls_in_flight_are_counted() -> None:
    entered, leave = asyncio.Event(), asyncio.Event()

    async def handler(call: Call) -> Answer:
        entered.set()
        await leave.wait()
        return Answer(b"{}")

    async def nothing(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError

    hot = HotRoutes(nothing, "s", "agent", {("POST", "/x"): handler})
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None:
        sent.append(message)

    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/x", "headers": []}
    serving = asyncio.create_task(hot(scope, receive, send))
    await entered.wait()
    assert hot.in_flight == 1
    leave.set()
    await serving
    assert hot.in_flight == 0
    assert sent[0]["status"] == 200


async def test_a_caller_that_goes_away_while_sending_is_a_cancelled_call() -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    with pytest.raises(RolloutError) as caught:
        await read_body(receive)
    assert caught.value.kind == "cancelled"


async def test_a_body_beyond_all_measure_is_refused_before_it_is_held() -> None:
    chunk = bytes(MAX_BODY // 2 + 1)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": chunk, "more_body": True}

    with pytest.raises(RolloutError, match="larger than 256 MiB") as caught:
        await read_body(receive)
    assert caught.value.status == 413


async def test_a_reply_is_json_with_its_length() -> None:
    async with running(Echo.app({}, name="echo")) as url:
        client = HttpClient()
        reply = await client.request("POST", f"{url}/echo")
        await client.aclose()
    assert reply.header(b"content-type") == b"application/json"
    assert reply.header(b"content-length") == str(len(reply.body)).encode()
    assert orjson.loads(reply.body)["method"] == "POST"


async def test_a_call_whose_caller_has_gone_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "WATCH_AFTER_SECONDS", 0.0)
    Echo.entered, Echo.cancelled = asyncio.Event(), asyncio.Event()
    async with running(Echo.app({}, name="echo")) as url:
        http = HttpClient()
        call = asyncio.create_task(http.request("POST", f"{url}/wait", body=b"{}"))
        reply = await http.request("POST", f"{url}/echo", body=b"{}")
        await Echo.entered.wait()
        assert not Echo.cancelled.is_set()
        call.cancel()
        async with asyncio.timeout(120):
            await Echo.cancelled.wait()
        again = await http.request("POST", f"{url}/echo", body=b"{}")
        await http.aclose()
    assert (reply.status, again.status) == (200, 200)
