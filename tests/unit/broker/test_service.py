"""The broker over HTTP, with an engine in memory: who may, how often, when it is full, when it breaks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from gym.broker.config import BrokerCaller
from gym.broker.routes import file_routes
from gym.errors import InfraError
from gym.http.pool import HttpClient
from gym.http.streams import exchange
from gym.sandbox.broker_client import Sandboxes
from gym.wire.failures import RolloutError
from gym.wire.sandbox import Build, Grant, token_digest
from tests.support.sandbox_broker import (
    OPERATOR_TOKEN,
    OTHER_TOKEN,
    SPEC,
    TOKEN,
    MemoryEngine,
    broker_running,
    make_config,
    memory_broker,
    until,
)
from tests.support.sandbox_http import send


async def test_a_sandbox_is_made_used_listed_and_removed() -> None:
    async with memory_broker() as (engine, running, sandboxes):
        async with await sandboxes.create(SPEC, rollout="7-1") as sandbox:
            assert sandbox.info.instance == "mcqa"
            assert sandbox.info.rollout == "7-1"
            result = await sandbox.exec(["echo", "hi"])
            assert result.stdout.text == "echo hi"
            assert [one.id for one in await sandboxes.alive()] == [sandbox.id]
        assert not engine.alive
        assert not await sandboxes.alive()
        kinds = [orjson.loads(line)["event"] for line in running.log.getvalue().splitlines()]
        assert kinds == ["create", "exec", "remove"]
        assert running.events("exec")[0] | {"time": 0, "seconds": 0} == {
            "time": 0,
            "event": "exec",
            "sandbox": sandbox.id,
            "instance": "mcqa",
            "rollout": "7-1",
            "argv": "echo hi",
            "seconds": 0,
            "outcome": "exit 0",
        }


@pytest.mark.parametrize("header", [None, "Bearer ", "Bearer token-of-mcqb", "Basic token-of-mcqa", "token-of-mcqa"])
async def test_without_a_valid_token_nothing_is_answered(header: str | None) -> None:
    async with memory_broker() as (_, running, _client):
        http = HttpClient()
        pairs = [] if header is None else [(b"authorization", header.encode())]
        for path in ("/sandboxes", "/status", "/sandboxes/x/exec", "/nothing"):
            reply = await http.request("GET", running.url + path, headers=pairs, timeout=60)
            assert reply.status == 401
        await http.aclose()


async def test_health_and_metrics_need_no_token_and_name_no_sandbox() -> None:
    async with memory_broker() as (_, running, sandboxes):
        sandbox = await sandboxes.create(SPEC)
        http = HttpClient()
        health = await http.request("GET", running.url + "/healthz", timeout=60)
        metrics = await http.request("GET", running.url + "/metrics", timeout=60)
        await http.aclose()
        assert health.status == 200
        assert orjson.loads(health.body)["status"] == "ok"
        text = metrics.body.decode()
        assert 'gym_sandbox_requests_total{verb="create",outcome="ok"} 1' in text
        assert "gym_sandbox_alive 1" in text
        assert 'gym_sandbox_seconds_bucket{verb="create",le="+Inf"} 1' in text
        assert sandbox.id not in text


async def test_another_instances_sandbox_is_not_there_and_the_operator_sees_all() -> None:
    async with memory_broker() as (_, running, sandboxes):
        sandbox = await sandboxes.create(SPEC)
        for method, path in (
            ("GET", f"/sandboxes/{sandbox.id}"),
            ("DELETE", f"/sandboxes/{sandbox.id}"),
            ("POST", f"/sandboxes/{sandbox.id}/exec"),
            ("GET", f"/sandboxes/{sandbox.id}/files?path=/x"),
            ("POST", f"/sandboxes/{sandbox.id}/fork"),
        ):
            reply, body = await send(running, method, path, {"argv": ["x"]} if "exec" in path else None, OTHER_TOKEN)
            assert (reply.status, body["error"]["kind"]) == (404, "sandbox")
        unknown, _ = await send(running, "GET", "/sandboxes/sb00000000000000", token=OTHER_TOKEN)
        hidden, _ = await send(running, "GET", f"/sandboxes/{sandbox.id}", token=OTHER_TOKEN)
        assert unknown.body.replace(b"sb00000000000000", b"") == hidden.body.replace(sandbox.id.encode(), b"")
        _, others = await send(running, "GET", "/sandboxes", token=OTHER_TOKEN)
        assert others == {"sandboxes": []}
        _, all_of_them = await send(running, "GET", "/sandboxes", token=OPERATOR_TOKEN)
        assert [one["id"] for one in all_of_them["sandboxes"]] == [sandbox.id]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"image": "task", "privileged": True}, 403, "root on this machine"),
        ({"image": "foreign"}, 403, "not granted"),
        ({"image": "task", "network": "internet"}, 403, "not granted"),
        ({"image": "task", "limits": {"memory": "900g"}}, 403, "max_memory"),
        ({"image": "task", "colour": "red"}, 422, "colour"),
        ({}, 422, "image"),
        ({"image": "task", "ttl": -1}, 422, "ttl"),
    ],
)
async def test_what_is_not_granted_is_refused_with_the_reason_and_nothing_is_made(
    body: dict[str, Any], status: int, words: str
) -> None:
    async with memory_broker() as (engine, running, _):
        reply, answer = await send(running, "POST", "/sandboxes", body)
        assert reply.status == status
        assert answer["error"]["kind"] == "row"
        assert answer["error"]["retryable"] is False
        assert words in answer["error"]["message"]
        assert not engine.made


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff", b'{"image": 3}'])
async def test_a_body_that_is_not_a_request_is_422(body: bytes) -> None:
    async with memory_broker() as (_, running, _client):
        http = HttpClient()
        pairs = [(b"authorization", f"Bearer {TOKEN}".encode())]
        reply = await http.request("POST", running.url + "/sandboxes", body=body, headers=pairs, timeout=60)
        await http.aclose()
        assert reply.status == 422
        assert orjson.loads(reply.body)["error"]["kind"] == "row"


async def test_a_retried_command_runs_once_while_it_runs_and_after_it_ended() -> None:
    async with memory_broker() as (engine, running, sandboxes):
        sandbox = await sandboxes.create(SPEC)
        held = engine.alive[sandbox.id]
        path, body = f"/sandboxes/{sandbox.id}/exec", {"argv": ["wait", "here"]}
        first = asyncio.ensure_future(send(running, "POST", path, body, x_gym_request_id="r1"))
        await until(lambda: held.memory.ran)
        second = asyncio.ensure_future(send(running, "POST", path, body, x_gym_request_id="r1"))
        await until(lambda: running.broker.idempotency.joined)
        engine.release("here")
        replies = await asyncio.gather(first, second)
        third = await send(running, "POST", path, body, x_gym_request_id="r1")
        assert held.memory.ran == [("wait", "here")]
        assert replies[0][0].body == replies[1][0].body == third[0].body
        other, answer = await send(running, "POST", path, {"argv": ["rm"]}, x_gym_request_id="r1")
        assert other.status == 422
        assert "another request" in answer["error"]["message"]


async def test_a_command_with_an_id_outlives_its_caller_and_its_retry_gets_the_reply() -> None:
    async with memory_broker() as (engine, _, sandboxes):
        sandbox = await sandboxes.create(SPEC)
        held = engine.alive[sandbox.id]
        left = asyncio.ensure_future(sandbox.exec(["wait", "here"], id="r1"))
        await until(lambda: held.memory.ran)
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)
        engine.release("here")
        result = await sandbox.exec(["wait", "here"], id="r1")
        assert result.stdout.text == "wait here"
        assert held.memory.ran == [("wait", "here")]


async def test_a_command_without_an_id_of_its_own_ends_with_its_caller_and_never_runs_again() -> None:
    async with memory_broker() as (engine, running, sandboxes):
        sandbox = await sandboxes.create(SPEC)
        held = engine.alive[sandbox.id]
        path, body = f"/sandboxes/{sandbox.id}/exec", {"argv": ["wait", "here"]}
        left = asyncio.ensure_future(sandbox.exec(["wait", "here"]))
        await until(lambda: held.memory.ran)
        left.cancel()
        await asyncio.gather(left, return_exceptions=True)
        await until(lambda: not running.broker.execs.status()["in_flight"])
        waiting = asyncio.ensure_future(send(running, "POST", path, body, x_gym_request_id="r1"))
        await until(lambda: len(held.memory.ran) == 2)
        _, answer = await send(running, "DELETE", f"{path}/r1")
        assert answer == {"cancelled": True}
        reply, answer = await waiting
        assert (reply.status, answer["error"]["kind"]) == (503, "cancelled")
        again, _ = await send(running, "POST", path, body, x_gym_request_id="r1")
        assert again.status == 409
        assert len(held.memory.ran) == 2


async def test_a_request_that_was_first_sent_to_a_dead_broker_is_not_run_again() -> None:
    async with memory_broker() as (engine, running, sandboxes):
        sandbox = await sandboxes.create(SPEC)
        path, body = f"/sandboxes/{sandbox.id}/exec", {"argv": ["x"]}
        reply, answer = await send(running, "POST", path, body, x_gym_request_id="r1", x_gym_broker="sb-of-yesterday")
        assert reply.status == 409
        assert answer["error"]["retryable"] is True
        assert not engine.alive[sandbox.id].memory.ran


async def test_a_create_with_the_same_id_makes_one_sandbox_even_when_a_new_broker_is_asked() -> None:
    async with memory_broker() as (engine, running, _):
        first, body = await send(running, "POST", "/sandboxes", SPEC, x_gym_request_id="r1")
        running.broker.idempotency._kept.clear()  # as in a broker that was restarted and adopted the sandbox
        again, same = await send(running, "POST", "/sandboxes", SPEC, x_gym_request_id="r1")
        assert first.status == again.status == 201
        assert body["id"] == same["id"]
        assert len(engine.made) == 1


async def test_an_owner_that_goes_silent_loses_its_sandboxes_and_others_keep_theirs() -> None:
    engine = MemoryEngine()
    async with broker_running(engine, make_config(lease_seconds=0.3)) as running:
        _, kept = await send(running, "POST", "/sandboxes", {**SPEC, "owner": "immortal"})
        await send(running, "POST", "/leases/immortal", {"seconds": 600})
        _, body = await send(running, "POST", "/sandboxes", {**SPEC, "owner": "mortal"})
        await until(lambda: body["id"] not in engine.alive)
        assert kept["id"] in engine.alive
        reply, why = await send(running, "GET", f"/sandboxes/{body['id']}")
        assert reply.status == 410
        assert "silent" in why["error"]["message"]


async def test_a_sandbox_whose_time_is_over_goes_and_one_that_was_extended_stays() -> None:
    engine = MemoryEngine()
    async with broker_running(engine) as running:
        _, longer = await send(running, "POST", "/sandboxes", {**SPEC, "ttl": 3})
        extended, _ = await send(running, "POST", f"/sandboxes/{longer['id']}/ttl", {"seconds": 500})
        assert extended.status == 200
        _, short = await send(running, "POST", "/sandboxes", {**SPEC, "ttl": 3.5})  # beyond the other's first end
        await until(lambda: short["id"] not in engine.alive)
        assert longer["id"] in engine.alive
        refused, _ = await send(running, "POST", f"/sandboxes/{longer['id']}/ttl", {"seconds": 10**6})
        assert refused.status == 422


async def test_a_client_that_ends_well_gives_everything_back_at_once() -> None:
    engine = MemoryEngine()
    async with broker_running(engine) as running:
        async with Sandboxes(running.url, TOKEN) as sandboxes:
            for _ in range(3):
                await sandboxes.create(SPEC)
            assert len(engine.alive) == 3
        assert not engine.alive


async def test_a_create_that_no_caller_waits_for_is_removed_again() -> None:
    async with memory_broker() as (engine, running, sandboxes):
        engine.create_gate = "slow"
        making = asyncio.ensure_future(sandboxes.create(SPEC))
        await until(lambda: running.broker.creates.status()["in_flight"])
        making.cancel()
        await asyncio.gather(making, return_exceptions=True)
        engine.release("slow")
        await until(lambda: running.events("remove"))
        assert not engine.alive


async def test_as_many_as_the_grant_allows_and_then_429_with_a_time_to_come_again() -> None:
    config = make_config(Grant(images=("task",), max_sandboxes=2, warm=0))
    engine = MemoryEngine()
    async with broker_running(engine, config) as running:
        replies = await asyncio.gather(*(send(running, "POST", "/sandboxes", SPEC) for _ in range(5)))
        statuses = sorted(reply.status for reply, _ in replies)
        assert statuses == [201, 201, 429, 429, 429]
        full = next(reply for reply, _ in replies if reply.status == 429)
        assert int(full.header(b"retry-after") or 0) >= 1
        assert len(engine.made) == 2


async def test_the_client_waits_for_its_turn_when_the_broker_is_full() -> None:
    config = make_config(Grant(images=("task",), max_sandboxes=1, warm=0))
    async with memory_broker(config) as (engine, running, sandboxes):
        first = await sandboxes.create(SPEC)
        waiting = asyncio.ensure_future(sandboxes.create(SPEC, timeout=120))
        await until(lambda: ("create", "busy") in running.broker.meters.counts)
        await first.delete()
        second = await waiting
        assert second.id != first.id
        with pytest.raises(RolloutError) as refused:
            await sandboxes.create(SPEC, timeout=0.3)
        assert refused.value.retryable


async def test_the_breaker_opens_when_the_engine_is_gone_and_says_why() -> None:
    config = make_config(breaker_failures=3)
    async with memory_broker(config) as (engine, running, _):
        engine.create_error = InfraError("Cannot connect to the Docker daemon")
        for _ in range(3):
            reply, body = await send(running, "POST", "/sandboxes", SPEC)
            assert (reply.status, body["error"]["retryable"]) == (503, True)
        asked = len(engine.prepared)
        reply, body = await send(running, "POST", "/sandboxes", SPEC)
        assert reply.status == 503
        assert reply.header(b"retry-after")
        assert "does not answer; no calls are made" in body["error"]["message"]
        assert "Cannot connect to the Docker daemon" in body["error"]["message"]
        assert len(engine.prepared) == asked
        assert running.broker.status()["breaker"]["state"] == "open"
        engine.create_error = None
        async with asyncio.timeout(120), Sandboxes(running.url, TOKEN) as sandboxes:
            assert (await sandboxes.create(SPEC)).id in engine.alive
        assert running.broker.status()["breaker"]["state"] == "closed"


async def test_a_ping_that_fails_opens_the_breaker_before_a_rollout_finds_out() -> None:
    async with memory_broker(make_config(breaker_failures=2, ping_seconds=0.01)) as (engine, running, _):
        engine.ping_error = TimeoutError("no answer")
        await until(lambda: running.broker.breaker.state == "open")
        engine.ping_error = None
        await until(lambda: running.broker.breaker.state == "closed")


async def test_the_rows_fault_does_not_open_the_breaker() -> None:
    async with memory_broker(make_config(breaker_failures=1)) as (_, running, _client):
        for _ in range(3):
            reply, body = await send(running, "POST", "/sandboxes", {"image": "task-absent"})
            assert (reply.status, body["error"]["kind"]) == (422, "row")
        assert running.broker.breaker.state == "closed"


async def test_a_removal_that_fails_is_tried_until_it_is_done_and_shown_meanwhile() -> None:
    async with memory_broker() as (engine, running, sandboxes):
        sandbox = await sandboxes.create(SPEC)
        held = engine.alive[sandbox.id]
        engine.remove_fails = 2
        await sandbox.delete()
        assert held.removals == 3
        assert not engine.alive
        assert running.broker.meters.counts["remove", "failed"] == 2
        assert running.broker.status()["removals"] == {"pending": 0, "failing": {}}


async def test_status_names_what_could_not_be_removed_yet() -> None:
    async with memory_broker() as (engine, running, sandboxes):
        sandbox = await sandboxes.create(SPEC)
        engine.remove_fails = 10**6
        deleting = asyncio.ensure_future(sandbox.delete())
        await until(lambda: running.broker.status()["removals"]["failing"])
        failing = running.broker.status()["removals"]["failing"][sandbox.id]
        assert "the engine is busy" in failing["error"]
        engine.remove_fails = 0
        await deleting


async def test_a_lost_sandbox_says_why_and_its_remains_go() -> None:
    async with memory_broker() as (engine, running, sandboxes):
        sandbox = await sandboxes.create(SPEC)
        engine.alive[sandbox.id].memory.end("the helper ended")
        await until(lambda: running.events("remove"))
        with pytest.raises(RolloutError, match="killed for memory") as lost:
            await sandbox.exec(["x"])
        assert lost.value.kind == "sandbox"
        assert lost.value.retryable
        assert (await sandbox.inspect()).state == "lost"


async def test_a_fork_belongs_to_the_same_instance_and_counts() -> None:
    config = make_config(Grant(images=("task",), max_sandboxes=2, warm=0))
    async with memory_broker(config) as (_, running, sandboxes):
        sandbox = await sandboxes.create(SPEC, rollout="1-0")
        branch = await sandbox.fork(rollout="1-1")
        assert branch.info.parent == sandbox.id
        assert branch.info.rollout == "1-1"
        reply, _ = await send(running, "POST", f"/sandboxes/{sandbox.id}/fork", {})
        assert reply.status == 429


async def test_one_image_is_fetched_once_however_many_wait_for_it() -> None:
    async with memory_broker() as (engine, running, sandboxes):
        engine.prepare_gate = "pull"
        making = [asyncio.ensure_future(sandboxes.create(SPEC)) for _ in range(5)]
        await until(lambda: running.broker.images.status()["coming"])
        timed_out, body = await send(running, "POST", "/sandboxes", SPEC, x_gym_timeout="0.2")
        assert timed_out.status in (429, 504)
        assert body["error"]["retryable"]
        engine.release("pull")
        await asyncio.gather(*making)
        assert engine.prepared == ["task"]


async def test_what_is_built_is_followed_by_the_operator_from_the_moment_a_server_began_it() -> None:
    build = Build(dockerfile="FROM task")
    async with memory_broker(make_config(Grant(images=("task",), build=True, warm=0))) as (engine, running, sandboxes):
        engine.prepare_gate = "build"
        await sandboxes.begin_build(build)
        people = Sandboxes(running.url, OPERATOR_TOKEN)
        lines = people.ndjson("/images/coming", b"", seconds=None, method="GET")
        assert await anext(lines) == {"instances": ["mcqa"], "progress": ""}
        engine.release("build")
        rest = [line async for line in lines]
        assert rest[-1]["done"]
        assert "error" not in rest[-1]
        assert [line["progress"] for line in rest] == ["1 of 1 layers"] * len(rest)
        assert [line async for line in people.ndjson("/images/coming", b"", seconds=None, method="GET")] == []
        with pytest.raises(RolloutError, match="only the stack's operator"):
            await anext(sandboxes.ndjson("/images/coming", b"", seconds=None, method="GET"))
        await people.aclose()


async def test_a_build_that_fails_says_why_to_those_who_follow_it() -> None:
    build = Build(dockerfile="FROM task-absent")
    async with memory_broker(make_config(Grant(images=("task*",), build=True, warm=0))) as (engine, running, sandboxes):
        engine.prepare_gate = "build"
        await sandboxes.begin_build(build)
        people = Sandboxes(running.url, OPERATOR_TOKEN)
        lines = people.ndjson("/images/coming", b"", seconds=None, method="GET")
        await anext(lines)
        engine.release("build")
        *_, last = [line async for line in lines]
        assert "task-absent" in last["error"]["message"]
        await people.aclose()


async def test_images_that_a_grant_names_are_fetched_before_the_first_rollout() -> None:
    config = make_config(Grant(images=("task*",), prefetch=("task-1", "task-2"), warm=0))
    async with memory_broker(config) as (engine, _, _client):
        await until(lambda: len(engine.prepared) == 2)
        assert set(engine.prepared) == {"task-1", "task-2"}


async def test_an_upload_that_does_not_go_on_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_routes, "IDLE_SECONDS", 0.05)
    async with memory_broker() as (_, running, sandboxes):
        sandbox = await sandboxes.create(SPEC)

        async def silent() -> AsyncIterator[bytes]:
            yield b"a beginning"
            await asyncio.Event().wait()

        with pytest.raises(RolloutError, match="did not go on for 0.05 s") as refused:
            await sandbox.put("/f", silent())
        assert refused.value.kind == "timeout"
        assert running.broker.registry.find(sandbox.id, BrokerCaller("operator", Grant(), operator=True)) is not None


async def test_a_download_that_does_not_go_on_is_given_up() -> None:
    left = asyncio.Event()

    async def say_little(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.transport.abort()
        left.set()

    async with await asyncio.start_server(say_little, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ConnectionError, match="silent for 0.05 s"):
            async with exchange("GET", f"http://127.0.0.1:{port}/", (), idle=0.05) as incoming:
                await incoming.whole()
        await left.wait()


async def test_a_deadline_is_kept_and_reported() -> None:
    async with memory_broker() as (_, running, sandboxes):
        sandbox = await sandboxes.create(SPEC)
        path = f"/sandboxes/{sandbox.id}/exec"
        reply, body = await send(running, "POST", path, {"argv": ["wait", "for-ever"]}, x_gym_timeout="0.2")
        assert reply.status == 504
        assert body["error"]["kind"] == "timeout"
        assert running.broker.execs.status()["in_flight"] == 0


async def test_a_route_that_is_not_there_is_distinguished_from_a_sandbox_that_is_not_there() -> None:
    async with memory_broker() as (_, running, _client):
        reply, body = await send(running, "POST", "/sandboxes/sb1/explode")
        assert reply.status == 404
        assert "no such route" in body["error"]["message"]
        assert body["error"]["kind"] == "row"


async def test_tokens_are_kept_as_digests_alone() -> None:
    config = make_config()
    assert TOKEN not in config.model_dump_json()
    assert config.instances["mcqa"].token_sha256 == token_digest(TOKEN)
