"""What becomes of a rollout's state: whose it is, how long it lives, that it is closed once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gym.server import ResourcesServer, VerifyRequest, tool
from gym.server.testing import Caller, running
from tests.support.counting_server import ROW, CountingServer, StartRow, State, asked, counting_server, states


async def test_each_rollout_has_its_own_state() -> None:
    async with running(counting_server()) as url, Caller(url) as one, Caller(url) as other:
        await one.post("/seed_session", ROW)
        await other.post("/seed_session", ROW | {"start": 100})
        await asyncio.gather(one.post("/add", {"number": 1}), other.post("/add", {"number": 1}))
        assert (await one.post("/verify", asked())).body["reward"] == 4.0
        assert (await other.post("/verify", asked())).body["reward"] == 101.0


async def test_the_cookie_bears_the_servers_name_and_nothing_of_the_session() -> None:
    async with running(CountingServer.app({}, name="my counter; ü=1")) as url, Caller(url) as caller:
        reply = await caller.post("/seed_session", ROW)
        cookie = (reply.reply.header(b"set-cookie") or b"").decode()
        assert cookie.startswith("CountingServer___my%20counter%3B%20%C3%BC%3D1=")
        assert cookie.endswith("; Path=/; HttpOnly; SameSite=lax")
        assert (await caller.post("/verify", asked())).body["reward"] == 3.0


async def test_a_server_without_a_seed_opens_no_session() -> None:
    class Plain(ResourcesServer[None]):
        """No seed."""

    async with running(Plain.app({}, name="plain")) as url, Caller(url) as caller:
        reply = await caller.post("/seed_session", ROW)
        assert (reply.body, reply.reply.header(b"set-cookie")) == ({}, None)
        assert (await caller.get("/healthz")).body["sessions"] == 0


async def test_verify_drops_the_session_and_closes_its_state_once() -> None:
    app = counting_server()
    async with running(app) as url, Caller(url) as caller:
        await caller.post("/seed_session", ROW)
        assert (await caller.get("/healthz")).body["sessions"] == 1
        await caller.post("/verify", asked())
        assert (await caller.get("/healthz")).body["sessions"] == 0
        again = await caller.post("/verify", asked())
    assert (again.status, again.body["error"]["kind"], again.body["error"]["retryable"]) == (503, "lost_session", True)
    assert [state.closed for state in states(app)] == [1]


async def test_two_verifies_at_once_close_the_state_once() -> None:
    app = counting_server()
    async with running(app) as url, Caller(url) as caller:
        await caller.post("/seed_session", ROW)
        (state,) = states(app)
        first = asyncio.create_task(caller.post("/verify", asked("wait")))
        await state.verifying.wait()
        second = await caller.post("/verify", asked())
        state.go_on.set()
        assert second.body["reward"] == (await first).body["reward"] == 3.0
    assert state.closed == 1


async def test_a_verify_that_fails_keeps_the_session_for_another_try() -> None:
    class Moody(CountingServer):
        async def verify(self, rollout: VerifyRequest, state: State | None) -> float:
            assert state is not None
            return 1 / (state.count - 3)

    app = Moody.app({}, name="moody")
    async with running(app) as url, Caller(url) as caller:
        await caller.post("/seed_session", ROW)
        assert (await caller.post("/verify", asked())).status == 500
        await caller.post("/add", {"number": 1})
        assert (await caller.post("/verify", asked())).body["reward"] == 1.0
    assert [state.closed for state in states(app)] == [1]


async def test_a_session_may_be_closed_by_its_rollout() -> None:
    app = counting_server()
    async with running(app) as url, Caller(url) as caller:
        await caller.post("/seed_session", ROW)
        assert (await caller.post("/close_session")).body == {"closed": True}
        assert (await caller.post("/close_session")).body == {"closed": False}
    assert [state.closed for state in states(app)] == [1]


async def test_seeding_again_closes_the_state_that_was_there() -> None:
    app = counting_server()
    async with running(app) as url, Caller(url) as caller:
        await caller.post("/seed_session", ROW)
        cookies = dict(caller.cookies)
        await caller.post("/seed_session", ROW | {"start": 7})
        assert caller.cookies == cookies
        assert [state.closed for state in states(app)] == [1, 0]
        assert (await caller.post("/verify", asked())).body["reward"] == 7.0
    assert [state.closed for state in states(app)] == [1, 1]


async def test_a_session_past_its_time_is_closed_and_then_lost() -> None:
    app = counting_server()
    async with running(app) as url, Caller(url) as caller:
        await caller.post("/seed_session", ROW)
        now = 0.0
        app.server.sessions._clock = lambda: now
        await caller.post("/seed_session", ROW)
        now = 3601.0
        reply = await caller.post("/add", {"number": 1})
        assert (reply.status, reply.body["error"]["kind"]) == (503, "lost_session")


async def test_the_sweeper_closes_what_is_not_asked_for_any_more() -> None:
    app = counting_server(session_ttl_seconds=0.02)
    async with running(app) as url, Caller(url) as caller:
        await caller.post("/seed_session", ROW)
        await until(lambda: states(app)[0].closed)
        assert (await caller.get("/healthz")).body["sessions"] == 0
    assert [state.closed for state in states(app)] == [1]


async def test_a_stopping_server_closes_every_state_even_when_one_will_not(caplog: pytest.LogCaptureFixture) -> None:
    class Stubborn(CountingServer):
        async def close(self, state: State) -> None:
            await super().close(state)
            if state.count == 1:
                raise OSError("will not")

    app = Stubborn.app({}, name="stubborn")
    async with running(app) as url:
        for start in (1, 2):
            async with Caller(url) as caller:
                await caller.post("/seed_session", ROW | {"start": start})
    assert [state.closed for state in states(app)] == [1, 1]
    assert "close: OSError: will not" in caplog.text


async def test_a_close_that_breaks_costs_no_reward(caplog: pytest.LogCaptureFixture) -> None:
    class Stubborn(CountingServer):
        async def close(self, state: State) -> None:
            raise OSError("will not")

    async with running(Stubborn.app({}, name="stubborn")) as url, Caller(url) as caller:
        await caller.post("/seed_session", ROW)
        assert (await caller.post("/verify", asked())).body["reward"] == 3.0
    assert "close: OSError: will not" in caplog.text


async def test_an_authors_start_and_stop_need_not_call_ours() -> None:
    class Loaded(CountingServer):
        async def start(self) -> None:
            self.loaded = True

        async def stop(self) -> None:
            self.loaded = False

    app: Any = Loaded.app({"session_ttl_seconds": 0.02}, name="loaded")
    async with running(app) as url, Caller(url) as caller:
        assert app.server.loaded
        await caller.post("/seed_session", ROW)
        await until(lambda: states(app)[0].closed)
    assert not app.server.loaded


async def test_a_tool_without_a_session_gets_one_of_its_own() -> None:
    app = counting_server()
    async with running(app) as url, Caller(url) as caller:
        assert (await caller.post("/add", {"number": 2})).body == 2
        assert (await caller.post("/add", {"number": 2})).body == 4
    assert [state.closed for state in states(app)] == [1]


async def test_a_tool_with_state_is_refused_without_a_session_unless_its_server_says_otherwise() -> None:
    class Strict(ResourcesServer[State]):
        async def seed(self, row: StartRow) -> State:
            return State(row.start)

        @tool
        async def add(self, number: int, state: State) -> int:
            return state.count + number

    async with running(Strict.app({}, name="strict")) as url, Caller(url) as caller:
        reply = await caller.post("/add", {"number": 1})
        assert (reply.status, reply.body["error"]["kind"]) == (422, "row")
        assert "/seed_session" in reply.body["error"]["message"]
        await caller.post("/seed_session", ROW)
        assert (await caller.post("/add", {"number": 1})).body == 4


async def test_a_cookie_that_was_made_up_is_a_lost_session() -> None:
    async with running(counting_server()) as url, Caller(url) as caller:
        caller.cookies["CountingServer___counter"] = "made-up"
        for path, body in (("/add", {"number": 1}), ("/verify", asked())):
            reply = await caller.post(path, body)
            assert (reply.status, reply.body["error"]["kind"]) == (503, "lost_session")
        assert (await caller.post("/plain")).status == 200
        assert (await caller.post("/seed_session", ROW)).status == 200
        assert caller.cookies["CountingServer___counter"] != "made-up"


async def test_a_tool_without_state_keeps_the_session_young() -> None:
    app = counting_server()
    async with running(app) as url, Caller(url) as caller:
        now = 0.0
        await caller.post("/plain")
        app.server.sessions._clock = lambda: now
        await caller.post("/seed_session", ROW)
        for _ in range(3):
            now += 3000.0
            await caller.post("/plain")
        assert (await caller.post("/verify", asked())).body["reward"] == 3.0


async def until(condition: Any) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.002)
