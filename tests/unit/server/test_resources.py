"""A resources server on a real socket: seeds, tools, verify, and what becomes of a rollout's state."""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from gym.server import MultiRewardResponse, ResourcesServer, Row, VerifyRequest, VerifyResponse, tool
from gym.server.asgi import Answer, Call, HotRoutes
from gym.server.testing import Caller, running

ROW: dict[str, Any] = {"responses_create_params": {"input": "x"}, "start": 3}


@dataclass
class State:
    count: int
    closed: int = 0
    verifying: asyncio.Event = field(default_factory=asyncio.Event)
    go_on: asyncio.Event = field(default_factory=asyncio.Event)


class StartRow(Row):
    start: int


class Shelf(ResourcesServer[State]):
    """Keeps every state that it ever made, for the test to look at."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.states: list[State] = []

    async def seed(self, row: StartRow) -> State:
        self.states.append(State(row.start))
        return self.states[-1]

    async def unseeded(self) -> State:
        self.states.append(State(0))
        return self.states[-1]

    async def close(self, state: State) -> None:
        state.closed += 1

    @tool
    async def add(self, number: int, state: State) -> int:
        state.count += number
        return state.count

    @tool
    async def plain(self) -> str:
        return "same for all"

    @tool
    async def broken(self, state: State) -> None:
        raise LookupError("no shelf")

    async def verify(self, rollout: VerifyRequest, state: State | None) -> float:
        if state is not None and rollout.last_text == "wait":
            state.verifying.set()
            await state.go_on.wait()
        return float(state.count) if state else -1.0


def shelf(**fields: Any) -> Any:
    return Shelf.app(fields, name="shelf")


def states(app: Any) -> list[State]:
    found: list[State] = app.server.states
    return found


def asked(text: str = "", **more: Any) -> dict[str, Any]:
    output = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]
    return ROW | more | {"response": {"output": output}}


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.002)


# Echo and reward.


async def test_unknown_fields_come_back_byte_for_byte() -> None:
    body = (
        b'{"responses_create_params":{"input":"x","temperature":0.70},"start":3, "big":123456789012345678901234567890,'
        b'"nested":{"b":[1.0,null,"\\u00e9 \xc3\xa9"],"a":{}},'
        b'"response":{"output":[],"logprobs":[-0.10000000000000001]}}'
    )
    async with running(shelf()) as url, Caller(url) as caller:
        told = await caller.post("/verify", body)
    assert told.reply.body == body[:-1] + b',"reward":-1.0}'


async def test_a_reward_in_the_request_is_replaced() -> None:
    async with running(shelf()) as url, Caller(url) as caller:
        told = await caller.post("/verify", asked(reward=0.25))
    assert told.reply.body.count(b'"reward"') == 1
    assert told.body["reward"] == -1.0


class Chosen(ResourcesServer[None]):
    """Answers what the test's row asks for."""

    outcomes: Mapping[str, Any] = {
        "float": 0.5,
        "bool": True,
        "fraction": Fraction(1, 4),
        "mapping": {"reward": 1, "why": "because"},
        "model": VerifyResponse.model_validate({"reward": 0.75, "more": [1]}),
        "several": MultiRewardResponse(reward=1.5, reward_components={"a": 1.0, "b": 0.5}),
        "nan": math.nan,
        "inf": math.inf,
        "none": None,
        "text": "1.0",
        "no reward": {"why": "forgot"},
        "model nan": VerifyResponse(reward=math.nan),
    }

    async def verify(self, rollout: VerifyRequest) -> Any:
        if rollout.last_text == "divide":
            return 1 / len(rollout.function_calls)
        if rollout.last_text == "parse":
            return StartRow.model_validate({}).start
        if rollout.last_text == "time":
            raise TimeoutError("the compiler took 10 s")
        return self.outcomes[rollout.last_text]


@pytest.mark.parametrize(
    ("outcome", "fields"),
    [
        ("float", {"reward": 0.5}),
        ("bool", {"reward": 1.0}),
        ("fraction", {"reward": 0.25}),
        ("mapping", {"reward": 1.0, "why": "because"}),
        ("model", {"reward": 0.75, "more": [1]}),
        ("several", {"reward": 1.5, "reward_components": {"a": 1.0, "b": 0.5}}),
    ],
)
async def test_a_verifier_may_answer_a_number_a_mapping_or_a_model(outcome: str, fields: dict[str, Any]) -> None:
    async with running(Chosen.app({}, name="chosen")) as url, Caller(url) as caller:
        told = await caller.post("/verify", asked(outcome))
    assert told.body == asked(outcome) | fields
    assert isinstance(told.body["reward"], float)


@pytest.mark.parametrize("outcome", ["nan", "inf", "none", "text", "no reward", "model nan"])
async def test_what_is_no_finite_number_is_refused_as_a_reward(outcome: str) -> None:
    async with running(Chosen.app({}, name="chosen")) as url, Caller(url) as caller:
        told = await caller.post("/verify", asked(outcome))
    assert (told.status, told.body["error"]["kind"], told.body["error"]["retryable"]) == (500, "resources", False)
    assert "a reward is a finite number" in told.body["error"]["message"]


async def test_a_bug_in_a_verifier_names_its_line_and_is_no_reward() -> None:
    async with running(Chosen.app({}, name="chosen")) as url, Caller(url) as caller:
        told = await caller.post("/verify", asked("divide"))
    assert (told.status, told.body["error"]["kind"], told.body["error"]["retryable"]) == (500, "resources", False)
    message = told.body["error"]["message"]
    assert message.startswith("ZeroDivisionError: division by zero (test_resources.py:")
    assert message.endswith("in verify: return 1 / len(rollout.function_calls))")


async def test_a_model_that_a_verifier_cannot_fill_is_its_bug_and_not_the_rows() -> None:
    async with running(Chosen.app({}, name="chosen")) as url, Caller(url) as caller:
        told = await caller.post("/verify", asked("parse"))
    assert (told.status, told.body["error"]["kind"]) == (500, "resources")
    assert "in verify: return StartRow.model_validate({})" in told.body["error"]["message"]


async def test_a_verifier_that_ran_out_of_time_says_timeout() -> None:
    async with running(Chosen.app({}, name="chosen")) as url, Caller(url) as caller:
        told = await caller.post("/verify", asked("time"))
    assert (told.status, told.body["error"]["kind"]) == (504, "timeout")
    assert told.body["error"]["message"] == "the compiler took 10 s"


async def test_without_a_verifier_nothing_is_scored() -> None:
    class Bare(ResourcesServer[None]):
        """Only tools."""

    async with running(Bare.app({}, name="bare")) as url, Caller(url) as caller:
        told = await caller.post("/verify", asked())
    assert told.status == 500
    assert "Bare has no verify" in told.body["error"]["message"]


# Bad bodies.


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        ("/seed_session", {"responses_create_params": {"input": "x"}}, "start: Field required"),
        ("/seed_session", {"responses_create_params": {"input": 5}, "start": 1}, "responses_create_params.input"),
        ("/seed_session", b"{", "body: Invalid JSON"),
        ("/seed_session", b"", "body: Invalid JSON"),
        ("/seed_session", b"\xff\xfe", "body: Invalid JSON"),
        ("/verify", [], "body: Input should be an object"),
        ("/verify", {"response": {"output": []}}, "responses_create_params: Field required"),
        ("/verify", ROW, "response: Field required"),
        ("/verify", ROW | {"response": {"output": "text"}}, "response.output: Input should be a valid array"),
        ("/aggregate_metrics", {"verify_responses": 5}, "verify_responses"),
        ("/aggregate_metrics", b"{", "body: not JSON"),
    ],
)
async def test_a_bad_body_is_told_where_it_is_bad(path: str, body: Any, place: str) -> None:
    async with running(shelf()) as url, Caller(url) as caller:
        told = await caller.post(path, body)
    assert (told.status, told.body["error"]["kind"], told.body["error"]["retryable"]) == (422, "row", False)
    assert place in told.body["error"]["message"]
    assert told.reply.header(b"x-gym-error") == b"row"


# Tools.


async def test_a_tool_answers_with_its_result_and_bad_arguments_with_their_place() -> None:
    async with running(shelf()) as url, Caller(url) as caller:
        assert (await caller.post("/plain")).reply.body == b'"same for all"'
        told = await caller.post("/add", {"number": "many"})
    assert told.status == 422
    assert told.body["detail"][0]["loc"] == ["body", "number"]


async def test_a_tool_that_breaks_names_its_line_and_keeps_the_session() -> None:
    async with running(shelf()) as url, Caller(url) as caller:
        await caller.post("/seed_session", ROW)
        told = await caller.post("/broken")
        assert told.status == 500
        assert 'in broken: raise LookupError("no shelf")' in told.body["error"]["message"]
        assert (await caller.post("/add", {"number": 1})).body == 4


async def test_the_tools_tell_their_schemas() -> None:
    async with running(shelf()) as url, Caller(url) as caller:
        told = (await caller.get("/tools")).body
    assert [one["name"] for one in told] == ["add", "broken", "plain"]
    assert told[0]["parameters"]["properties"] == {"number": {"type": "integer"}}


# Sessions.


async def test_each_rollout_has_its_own_state() -> None:
    async with running(shelf()) as url, Caller(url) as one, Caller(url) as other:
        await one.post("/seed_session", ROW)
        await other.post("/seed_session", ROW | {"start": 100})
        await asyncio.gather(one.post("/add", {"number": 1}), other.post("/add", {"number": 1}))
        assert (await one.post("/verify", asked())).body["reward"] == 4.0
        assert (await other.post("/verify", asked())).body["reward"] == 101.0


async def test_the_cookie_bears_the_servers_name_and_nothing_of_the_session() -> None:
    async with running(Shelf.app({}, name="my shelf; ü=1")) as url, Caller(url) as caller:
        told = await caller.post("/seed_session", ROW)
        cookie = (told.reply.header(b"set-cookie") or b"").decode()
        assert cookie.startswith("Shelf___my%20shelf%3B%20%C3%BC%3D1=")
        assert cookie.endswith("; Path=/; HttpOnly; SameSite=lax")
        assert (await caller.post("/verify", asked())).body["reward"] == 3.0


async def test_a_server_without_a_seed_opens_no_session() -> None:
    async with running(Chosen.app({}, name="chosen")) as url, Caller(url) as caller:
        told = await caller.post("/seed_session", ROW)
        assert (told.body, told.reply.header(b"set-cookie")) == ({}, None)
        assert (await caller.get("/healthz")).body["sessions"] == 0


async def test_verify_drops_the_session_and_closes_its_state_once() -> None:
    app = shelf()
    async with running(app) as url, Caller(url) as caller:
        await caller.post("/seed_session", ROW)
        assert (await caller.get("/healthz")).body["sessions"] == 1
        await caller.post("/verify", asked())
        assert (await caller.get("/healthz")).body["sessions"] == 0
        again = await caller.post("/verify", asked())
    assert (again.status, again.body["error"]["kind"], again.body["error"]["retryable"]) == (503, "lost_session", True)
    assert [state.closed for state in states(app)] == [1]


async def test_two_verifies_at_once_close_the_state_once() -> None:
    app = shelf()
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
    class Moody(Shelf):
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
    app = shelf()
    async with running(app) as url, Caller(url) as caller:
        await caller.post("/seed_session", ROW)
        assert (await caller.post("/close_session")).body == {"closed": True}
        assert (await caller.post("/close_session")).body == {"closed": False}
    assert [state.closed for state in states(app)] == [1]


async def test_seeding_again_closes_the_state_that_was_there() -> None:
    app = shelf()
    async with running(app) as url, Caller(url) as caller:
        await caller.post("/seed_session", ROW)
        cookies = dict(caller.cookies)
        await caller.post("/seed_session", ROW | {"start": 7})
        assert caller.cookies == cookies
        assert [state.closed for state in states(app)] == [1, 0]
        assert (await caller.post("/verify", asked())).body["reward"] == 7.0
    assert [state.closed for state in states(app)] == [1, 1]


async def test_a_session_past_its_time_is_closed_and_then_lost() -> None:
    app = shelf()
    async with running(app) as url, Caller(url) as caller:
        await caller.post("/seed_session", ROW)
        now = 0.0
        app.server.sessions._clock = lambda: now
        await caller.post("/seed_session", ROW)
        now = 3601.0
        told = await caller.post("/add", {"number": 1})
        assert (told.status, told.body["error"]["kind"]) == (503, "lost_session")


async def test_the_sweeper_closes_what_nobody_asks_for_any_more() -> None:
    app = shelf(session_ttl_seconds=0.02)
    async with running(app) as url, Caller(url) as caller:
        await caller.post("/seed_session", ROW)
        await until(lambda: states(app)[0].closed)
        assert (await caller.get("/healthz")).body["sessions"] == 0
    assert [state.closed for state in states(app)] == [1]


async def test_a_stopping_server_closes_every_state_even_when_one_will_not(caplog: pytest.LogCaptureFixture) -> None:
    class Stubborn(Shelf):
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
    class Stubborn(Shelf):
        async def close(self, state: State) -> None:
            raise OSError("will not")

    async with running(Stubborn.app({}, name="stubborn")) as url, Caller(url) as caller:
        await caller.post("/seed_session", ROW)
        assert (await caller.post("/verify", asked())).body["reward"] == 3.0
    assert "close: OSError: will not" in caplog.text


async def test_an_authors_start_and_stop_need_not_call_ours() -> None:
    class Loaded(Shelf):
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
    app = shelf()
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
        told = await caller.post("/add", {"number": 1})
        assert (told.status, told.body["error"]["kind"]) == (422, "row")
        assert "/seed_session" in told.body["error"]["message"]
        await caller.post("/seed_session", ROW)
        assert (await caller.post("/add", {"number": 1})).body == 4


async def test_a_cookie_that_was_made_up_is_a_lost_session() -> None:
    async with running(shelf()) as url, Caller(url) as caller:
        caller.cookies["Shelf___shelf"] = "made-up"
        for path, body in (("/add", {"number": 1}), ("/verify", asked())):
            told = await caller.post(path, body)
            assert (told.status, told.body["error"]["kind"]) == (503, "lost_session")
        assert (await caller.post("/plain")).status == 200
        assert (await caller.post("/seed_session", ROW)).status == 200
        assert caller.cookies["Shelf___shelf"] != "made-up"


async def test_a_tool_without_state_keeps_the_session_young() -> None:
    app = shelf()
    async with running(app) as url, Caller(url) as caller:
        now = 0.0
        await caller.post("/plain")
        app.server.sessions._clock = lambda: now
        await caller.post("/seed_session", ROW)
        for _ in range(3):
            now += 3000.0
            await caller.post("/plain")
        assert (await caller.post("/verify", asked())).body["reward"] == 3.0


# Metrics and docs.


async def test_metrics_of_a_server_stand_beside_the_baseline() -> None:
    class Counted(Chosen):
        def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
            return {"replies": len(replies)}

    async with running(Counted.app({}, name="counted")) as url, Caller(url) as caller:
        told = (await caller.post("/aggregate_metrics", {"verify_responses": [{"reward": 1.0}, {"reward": 0.0}]})).body
        mode = (await caller.get("/reverify_mode")).body
    assert told["agent_metrics"]["mean/reward"] == 0.5
    assert told["agent_metrics"]["replies"] == 2
    assert told["key_metrics"] == {"mean/reward": 0.5}
    assert mode == "unknown"


async def test_the_docs_show_an_authors_own_fields() -> None:
    async with running(shelf()) as url, Caller(url) as caller:
        document = (await caller.get("/openapi.json")).body
    assert document["components"]["schemas"]["StartRow"]["required"] == ["responses_create_params", "start"]
    assert "/add" in document["paths"]


# Any well-formed request.

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


class Constant(ResourcesServer[None]):
    async def verify(self, rollout: VerifyRequest) -> float:
        return 0.5


def test_any_fields_survive_verify() -> None:
    hot: HotRoutes = asyncio.run(Constant.app({}, name="constant").start())
    verify = hot.routes[("POST", "/verify")]

    @given(fields=st.dictionaries(st.text(max_size=8), JSON, max_size=5))
    @settings(max_examples=200, deadline=None, derandomize=True)
    def survive(fields: dict[str, Any]) -> None:
        body = fields | {"responses_create_params": {"input": "x"}, "response": {"output": []}}
        answer: Answer = asyncio.run(_call(verify, json.dumps(body).encode()))
        assert json.loads(answer.body) == body | {"reward": 0.5}

    survive()


async def _call(handler: Any, body: bytes) -> Answer:
    answer: Answer = await handler(Call("POST", "/verify", [], body))
    return answer


async def test_a_log_line_names_the_rollout(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "gym.server"):
        async with running(Chosen.app({}, name="chosen")) as url, Caller(url) as caller:
            await caller.post("/verify", asked("divide"), x_gym_rollout_id="7-1")
    assert "rollout 7-1: ZeroDivisionError" in caplog.text


class Described(BaseModel):
    """A reply model with a reward of its own name."""

    reward: float
    passed: int


async def test_any_pydantic_model_with_a_reward_will_do() -> None:
    class Own(ResourcesServer[None]):
        async def verify(self, rollout: VerifyRequest) -> Any:
            return Described(reward=0.5, passed=3)

    async with running(Own.app({}, name="own")) as url, Caller(url) as caller:
        assert (await caller.post("/verify", asked())).body == asked() | {"reward": 0.5, "passed": 3}
