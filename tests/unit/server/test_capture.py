"""Recorded sessions of a model server: every dialect, every failure, several replicas, bounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.errors import ConfigError
from gym.http.pool import HttpClient, Reply
from gym.server import Model
from gym.server.testing import running
from gym.wire import items
from gym.wire.failures import RolloutError

Body = dict[str, Any]
TOKENS = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.1]}
CHAT: Body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
ASKED: dict[str, Body] = {
    "/v1/responses": {"input": "hi"},
    "/v1/chat/completions": CHAT,
    "/v1/messages": {**CHAT, "max_tokens": 5},
}
TOKEN = "x-gym-session-token"
ROLLOUT = "x-gym-rollout-id"


class Echo(Model):
    """Says back the last user text. "hang" hangs until the test ends it, "fail" and "bug" fail."""

    async def start(self) -> None:
        self.hanging = asyncio.Event()
        self.ended = asyncio.Event()

    async def respond(self, params: Body) -> Body:
        said = items.item_text(items.input_items(params.get("input"))[-1])
        if said == "fail":
            raise RolloutError("model", "the provider is down", retryable=True)
        if said == "bug":
            raise ZeroDivisionError
        if said == "hang":
            self.hanging.set()
            try:
                await asyncio.Event().wait()
            finally:
                self.ended.set()
        return items.response([items.message(said) | TOKENS], model="echo", params=params, usage=items.text_usage(1, 1))


class Served:
    def __init__(self, url: str, http: HttpClient, model: Any) -> None:
        self.url, self.http, self.model = url, http, model

    async def send(self, method: str, path: str, body: Any = b"", **headers: str) -> Reply:
        raw = body if isinstance(body, bytes) else orjson.dumps(body)
        pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        return await self.http.request(method, self.url + path, body=raw, headers=pairs, timeout=60)

    async def say(self, session: str, text: str, **headers: str) -> Reply:
        return await self.send("POST", f"/sessions/{session}/v1/responses", {"input": text}, **headers)

    async def trace(self, session: str, **headers: str) -> Body:
        reply = await self.send("GET", f"/sessions/{session}/trace", **headers)
        assert reply.status == 200, reply.body
        parsed: Body = orjson.loads(reply.body)
        return parsed


@asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[Served]:
    fields = settings.pop("fields", {})
    app = Echo.app(fields, name="m", **settings)
    http = HttpClient()
    async with running(app) as url:
        try:
            yield Served(url, http, app.server)
        finally:
            await http.aclose()


@asynccontextmanager
async def replicas(folder: Path, count: int) -> AsyncIterator[list[Served]]:
    """Of one instance, all in its discovery document."""
    document = folder / "discovery.json"
    async with AsyncExitStack() as stack:
        found = [await stack.enter_async_context(serving(discovery=str(document))) for _ in range(count)]
        write_discovery(document, *(one.url for one in found))
        yield found


def write_discovery(document: Path, *urls: str) -> None:
    listed = [{"id": f"m-{number}", "url": url} for number, url in enumerate(urls, 1)]
    instance = {"type": "responses_api_models", "implementation": "echo", "replicas": listed, "sdk": True}
    document.write_bytes(orjson.dumps({"stack": "s", "instances": {"m": instance}}))


def failure(reply: Reply) -> Body:
    error: Body = orjson.loads(reply.body)["error"]
    return error


@pytest.mark.parametrize("stream", [False, True])
async def test_every_dialect_is_recorded_streams_as_whole_replies(stream: bool) -> None:
    async with serving() as m:
        for path, body in ASKED.items():
            reply = await m.send("POST", f"/sessions/one{path}", {**body, "stream": stream})
            assert reply.status == 200
            assert reply.body.startswith(b"{") is not stream
        trace = await m.trace("one")
    assert (trace["session_id"], trace["model_server"], trace["complete"]) == ("one", "m", True)
    found = trace["calls"]
    assert [one["index"] for one in found] == [0, 1, 2]
    assert [one["path"] for one in found] == list(ASKED)
    assert [one["dialect"] for one in found] == ["responses", "chat_completions", "messages"]
    assert [one["request"] for one in found] == [{**body, "stream": stream} for body in ASKED.values()]
    assert [one["stream"] for one in found] == [stream] * 3
    assert [{key: one[key] for key in TOKENS} for one in found] == [TOKENS] * 3
    assert [one["status"] for one in found] == [200] * 3
    assert all(one["seconds"] >= 0 for one in found)
    assert sorted(one["started_at"] for one in found) == [one["started_at"] for one in found]
    responses, chat, message = (one["reply"] for one in found)
    assert items.output_text(responses["output"]) == "hi"
    assert chat["choices"][0]["message"]["content"] == "hi"
    assert message["content"] == [{"type": "text", "text": "hi"}]


async def test_the_prefix_of_nemo_gym_records_under_the_same_ids() -> None:
    async with serving() as m:
        await m.send("POST", "/ng-rollout/7-1-a2/v1/responses", {"input": "x"})
        await m.send("POST", "/ng-rollout/7-1-a2/training-token-capture/v1/responses", {"input": "y"})
        await m.say("7-1-a2", "z")
        trace = await m.trace("7-1-a2")
    assert [one["request"]["input"] for one in trace["calls"]] == ["x", "y", "z"]


async def test_calls_without_a_session_are_not_recorded() -> None:
    async with serving() as m:
        assert (await m.send("POST", "/v1/responses", {"input": "x"}, **{ROLLOUT: "7-1"})).status == 200
        reply = await m.send("GET", "/sessions/7-1/trace")
        status = orjson.loads((await m.send("GET", "/sessions")).body)
    assert (reply.status, failure(reply)["kind"], failure(reply)["retryable"]) == (404, "lost_session", False)
    assert status == {"sessions": 0, "memory_bytes": 0, "disk_bytes": 0}


async def test_failures_are_recorded_as_they_were_answered() -> None:
    async with serving() as m:
        replies = [await m.say("one", text) for text in ("fail", "bug", "fine")]
        replies.append(await m.send("POST", "/sessions/one/v1/responses", b"{no json"))
        found = (await m.trace("one"))["calls"]
    assert [one.status for one in replies] == [502, 502, 200, 422]
    assert [one["status"] for one in found] == [502, 502, 200, 422]
    assert found[0]["reply"] == orjson.loads(replies[0].body)
    assert found[0]["reply"]["error"]["message"] == "the provider is down"
    assert (found[3]["request"], found[3]["request_text"]) == (None, "{no json")
    assert found[3]["prompt_token_ids"] is None


async def test_a_caller_that_went_away_is_recorded_as_cancelled() -> None:
    async with serving() as m:
        asking = asyncio.create_task(m.say("one", "hang"))
        await m.model.hanging.wait()
        running_now = await m.trace("one")
        asking.cancel()
        await m.model.ended.wait()
        late = await m.say("one", "hang", x_gym_timeout="2")
        found = (await m.trace("one"))["calls"]
    assert (running_now["complete"], running_now["in_flight"], running_now["calls"]) == (False, 1, [])
    assert late.status == 504
    assert [(one["status"], one["reply"]["error"]["kind"]) for one in found] == [(499, "cancelled")] * 2


async def test_a_deleted_session_is_gone_and_its_id_free() -> None:
    async with serving() as m:
        await m.say("one", "x")
        for expected in (1, 0):
            reply = await m.send("DELETE", "/sessions/one")
            assert orjson.loads(reply.body) == {"session_id": "one", "deleted": expected}
        assert (await m.send("GET", "/sessions/one/trace")).status == 404
        await m.say("one", "y")
        assert [one["request"]["input"] for one in (await m.trace("one"))["calls"]] == ["y"]


async def test_a_token_claims_a_session() -> None:
    async with serving() as m:
        assert (await m.say("one", "x", **{TOKEN: "secret"})).status == 200
        asked = [
            await m.say("one", "y"),
            await m.say("one", "y", **{TOKEN: "other"}),
            await m.send("GET", "/sessions/one/trace"),
            await m.send("GET", "/sessions/one"),
            await m.send("DELETE", "/sessions/one", **{TOKEN: "other"}),
        ]
        trace = await m.trace("one", **{TOKEN: "secret"})
    assert {(one.status, failure(one)["kind"], failure(one)["retryable"]) for one in asked} == {(409, "row", False)}
    assert b"secret" not in b"".join(one.body for one in asked)
    assert b"secret" not in orjson.dumps(trace)
    assert len(trace["calls"]) == 1


async def test_two_rollouts_cannot_share_an_id() -> None:
    async with serving() as m:
        assert (await m.say("one", "x", **{ROLLOUT: "7-1"})).status == 200
        assert (await m.say("one", "y")).status == 200
        refused = await m.say("one", "z", **{ROLLOUT: "7-2"})
        trace = await m.trace("one")
    assert (refused.status, failure(refused)["kind"]) == (409, "row")
    assert [one["request"]["input"] for one in trace["calls"]] == ["x", "y"]


async def test_a_session_is_made_with_an_id_of_its_own() -> None:
    async with serving() as m:
        first, second = [orjson.loads((await m.send("POST", "/sessions")).body) for _ in range(2)]
        assert first["session_id"] != second["session_id"]
        assert first["base_path"] == f"sessions/{first['session_id']}/v1"
        named = await m.send("POST", "/sessions", {"session_id": "mine"})
        assert orjson.loads(named.body)["session_id"] == "mine"
        again = await m.send("POST", "/sessions", {"session_id": "mine"})
        assert (again.status, failure(again)["kind"]) == (409, "row")
        assert (await m.trace("mine"))["calls"] == []
        reply = orjson.loads((await m.send("GET", "/sessions/mine")).body)
        assert (reply["session_id"], reply["trace_count"]) == ("mine", 0)
        gone = await m.send("POST", "/sessions/batch_delete", {"session_ids": ["mine", first["session_id"]]})
        assert orjson.loads(gone.body) == {"deleted": 0}
        assert (await m.send("GET", "/sessions/mine")).status == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/sessions/a%2Fb/v1/responses", {"input": "x"}, 404),
        ("POST", "/sessions/a/b/v1/responses", {"input": "x"}, 404),
        ("POST", "/sessions//v1/responses", {"input": "x"}, 404),
        ("POST", "/sessions/..%00/v1/responses", {"input": "x"}, 422),
        ("POST", f"/sessions/{'x' * 201}/v1/responses", {"input": "x"}, 422),
        ("GET", "/sessions/%20/trace", b"", 422),
        ("DELETE", "/sessions/a/b/c", b"", 404),
        ("POST", "/sessions", {"session_id": "a/b"}, 422),
        ("POST", "/sessions", {"session_id": 3}, 422),
        ("POST", "/sessions", b"{", 422),
        ("POST", "/sessions/batch_delete", {"session_ids": "x"}, 422),
        ("POST", "/sessions/batch_delete", {"session_ids": ["a/b"]}, 422),
        ("POST", "/sessions/other", {}, 422),
    ],
)
async def test_ids_and_paths_that_cannot_be_are_the_callers_fault(
    method: str, path: str, body: Any, status: int
) -> None:
    async with serving() as m:
        reply = await m.send(method, path, body)
        assert (reply.status, failure(reply)["kind"], failure(reply)["retryable"]) == (status, "row", False)
        assert len(m.model.capture.store) == 0


async def test_bodies_of_ten_megabytes_are_recorded_within_the_bounds() -> None:
    limits = {"max_memory_bytes": 45_000_000, "max_session_bytes": 65_000_000}
    async with serving(fields={"capture": limits}) as m:
        for letter in "abcd":
            assert (await m.say("one", letter * 10_000_000)).status == 200
        store = m.model.capture.store
        assert store.memory <= 45_000_000
        assert store.disk > 0
        trace = await m.trace("one")
    assert (trace["complete"], trace["not_recorded"]) == (False, 1)
    assert [one["request"]["input"][0] for one in trace["calls"]] == ["a", "b", "c"]
    assert [len(one["reply"]["output"][0]["content"][0]["text"]) for one in trace["calls"]] == [10_000_000] * 3


async def test_a_trace_that_made_room_is_a_failure_and_no_partial_trace() -> None:
    limits = {"max_memory_bytes": 80_000, "max_disk_bytes": 0}
    async with serving(fields={"capture": limits}) as m:
        for number in range(5):
            await m.say(f"s{number}", "x" * 5_000)
        lost = await m.send("GET", "/sessions/s0/trace")
        kept = await m.trace("s4")
        assert (await m.say("s0", "y")).status == 200
        still = await m.send("GET", "/sessions/s0/trace")
    assert len(kept["calls"]) == 1
    assert [(one.status, failure(one)["kind"]) for one in (lost, still)] == [(503, "lost_session")] * 2
    assert "capture.max_memory_bytes" in failure(lost)["message"]


async def test_a_limit_that_is_none_is_an_error_of_the_configuration() -> None:
    with pytest.raises(ConfigError, match=r"capture\.ttl_seconds"):
        await Echo.app({"capture": {"ttl_seconds": 0}}, name="m").start()


# Several replicas.


async def test_a_trace_is_gathered_from_all_replicas(tmp_path: Path) -> None:
    async with replicas(tmp_path, 3) as (a, b, c):
        for number, one in enumerate((a, b, a, b)):
            assert (await one.say("one", str(number))).status == 200
        for one in (a, b, c):
            trace = await one.trace("one")
            assert [call["request"]["input"] for call in trace["calls"]] == ["0", "1", "2", "3"]
            assert [call["index"] for call in trace["calls"]] == [0, 1, 2, 3]
            assert trace["calls"][1]["generation_token_ids"] == [2]
        assert len({call["id"] for call in trace["calls"]}) == 4
        records = orjson.loads((await c.send("GET", "/sessions/one/traces")).body)
        assert [one["response_message"]["content"] for one in records] == ["0", "1", "2", "3"]
        deleted = orjson.loads((await c.send("DELETE", "/sessions/one")).body)["deleted"]
        assert deleted == 4
        assert (await a.send("GET", "/sessions/one/trace")).status == 404


async def test_another_replica_refuses_a_caller_that_is_not_the_owner(tmp_path: Path) -> None:
    async with replicas(tmp_path, 2) as (a, b):
        assert (await a.say("one", "x", **{TOKEN: "mine"})).status == 200
        assert (await b.say("one", "y", **{TOKEN: "mine"})).status == 200
        assert (await a.say("two", "x", **{ROLLOUT: "7-1"})).status == 200
        refused = [
            await b.say("one", "z"),
            await b.say("two", "z", **{ROLLOUT: "7-2"}),
            await b.send("POST", "/sessions", {"session_id": "two"}),
        ]
        traces = [await one.trace("two") for one in (a, b)]
    assert [(one.status, failure(one)["kind"]) for one in refused] == [(409, "row")] * 3
    assert [len(one["calls"]) for one in traces] == [1, 1]


async def test_a_replica_that_comes_later_asks_who_owns_an_id(tmp_path: Path) -> None:
    document = tmp_path / "discovery.json"
    async with serving(discovery=str(document)) as a, serving(discovery=str(document)) as b:
        write_discovery(document, a.url)
        assert (await a.say("one", "x", **{TOKEN: "mine"})).status == 200
        write_discovery(document, a.url, b.url)
        refused = await b.say("one", "y")
        assert (refused.status, failure(refused)["kind"]) == (409, "row")
        assert len(b.model.capture.store) == 0


async def test_first_calls_at_two_replicas_at_once_are_one_session(tmp_path: Path) -> None:
    async with replicas(tmp_path, 2) as (a, b):
        for number in range(10):
            both = await asyncio.gather(a.say(f"s{number}", "x"), b.say(f"s{number}", "y"))
            assert [one.status for one in both] == [200, 200]
            assert len((await a.trace(f"s{number}"))["calls"]) == 2


async def test_the_part_of_a_replica_that_is_gone_is_missed(tmp_path: Path) -> None:
    document = tmp_path / "discovery.json"
    async with serving(discovery=str(document)) as a:
        async with serving(discovery=str(document)) as b:
            write_discovery(document, a.url, b.url)
            await a.say("one", "x")
            await b.say("one", "y")
            await a.say("alone", "x")
        lost = await a.send("GET", "/sessions/one/trace")
        assert (lost.status, failure(lost)["kind"], failure(lost)["retryable"]) == (503, "lost_session", True)
        assert "has gone" in failure(lost)["message"]
        assert len((await a.trace("alone"))["calls"]) == 1
        unknown = await a.send("GET", "/sessions/unknown/trace")
        assert (unknown.status, failure(unknown)["retryable"]) == (503, True)
        # What the one that is gone had of a session that comes to this one now, is unknown.
        assert (await a.say("new", "x")).status == 200
        assert (await a.send("GET", "/sessions/new/trace")).status == 503
        assert (await a.say("own", "x", x_gym_capture="own")).status == 200
        assert len((await a.trace("own"))["calls"]) == 1


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_replica_that_was_started_again_has_lost_its_part(tmp_path: Path, when: str) -> None:
    document = tmp_path / "discovery.json"
    async with serving(discovery=str(document)) as a:
        async with serving(discovery=str(document)) as b:
            write_discovery(document, a.url, b.url)
            await b.say("one", "x")
            if when == "after":
                await a.say("one", "y")
        async with serving(discovery=str(document)) as again:
            write_discovery(document, a.url, again.url)
            if when == "before":
                missed = await a.send("GET", "/sessions/one/trace")
                assert (missed.status, failure(missed)["kind"]) == (503, "lost_session")
                await a.say("one", "y")
            for one in (a, again):
                lost = await one.send("GET", "/sessions/one/trace")
                assert (lost.status, failure(lost)["kind"]) == (503, "lost_session")


async def test_a_session_that_was_made_and_never_used_at_a_lost_replica_is_whole(tmp_path: Path) -> None:
    document = tmp_path / "discovery.json"
    async with serving(discovery=str(document)) as a:
        async with serving(discovery=str(document)) as b:
            write_discovery(document, a.url, b.url)
            await b.send("POST", "/sessions", {"session_id": "one"})
            await a.say("one", "y")
        assert len((await a.trace("one"))["calls"]) == 1
