"""A resources server on a real socket: tools, verify, metrics. Its sessions are test_resources_sessions.py's."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from gym.server import MultiRewardResponse, ResourcesServer, VerifyRequest, VerifyResponse, tool
from gym.server.asgi import Answer, Call, HotRoutes
from gym.server.testing import Caller, running
from gym.wire.pieces import join_body
from tests.support.counting_server import ROW, StartRow, asked, counting_server


async def test_unknown_fields_come_back_byte_for_byte() -> None:
    body = (
        b'{"responses_create_params":{"input":"x","temperature":0.70},"start":3, "big":123456789012345678901234567890,'
        b'"nested":{"b":[1.0,null,"\\u00e9 \xc3\xa9"],"a":{}},'
        b'"response":{"output":[],"logprobs":[-0.10000000000000001]}}'
    )
    async with running(counting_server()) as url, Caller(url) as caller:
        reply = await caller.post("/verify", body)
    assert reply.reply.body == body[:-1] + b',"reward":-1.0}'


async def test_a_reward_in_the_request_is_replaced() -> None:
    async with running(counting_server()) as url, Caller(url) as caller:
        reply = await caller.post("/verify", asked(reward=0.25))
    assert reply.reply.body.count(b'"reward"') == 1
    assert reply.body["reward"] == -1.0


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
        "long text": "1" * 100_000,
        "beyond": 10**5_000,
        "object": object(),
        "set": {"reward": 1.0, "fine": 1, "seen": {"a"}},
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
        if rollout.last_text == "coroutine":
            return self.verify(rollout)
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
        reply = await caller.post("/verify", asked(outcome))
    assert reply.body == asked(outcome) | fields
    assert isinstance(reply.body["reward"], float)


@pytest.mark.parametrize(
    ("outcome", "found"),
    [
        ("nan", "nan"),
        ("inf", "inf"),
        ("none", "None"),
        ("text", "'1.0'"),
        ("long text", "'" + "1" * 99 + "…"),
        ("beyond", "a number beyond every float"),
        ("object", "an object of type object"),
        ("coroutine", "a coroutine that it did not await"),
        ("model nan", "nan"),
    ],
)
async def test_what_is_not_a_finite_number_is_refused_as_a_reward(outcome: str, found: str) -> None:
    async with running(Chosen.app({}, name="chosen")) as url, Caller(url) as caller:
        reply = await caller.post("/verify", asked(outcome))
    error = reply.body["error"]
    assert (reply.status, error["kind"], error["retryable"]) == (500, "resources", False)
    assert error["message"] == f"verify returned {found}: a reward is a finite number"


async def test_a_result_of_a_tool_that_no_json_can_say_names_the_tool_and_its_line() -> None:
    class Opening(ResourcesServer[None]):
        @tool
        async def look(self) -> Any:
            return object()

        async def verify(self, rollout: VerifyRequest) -> float:
            return 1.0

    async with running(Opening.app({}, name="opening")) as url, Caller(url) as caller:
        reply = await caller.post("/look")
    assert (reply.status, reply.body["error"]["kind"], reply.body["error"]["retryable"]) == (500, "resources", False)
    assert reply.body["error"]["message"].startswith("the tool look (test_resources.py:")


async def test_a_mapping_without_a_reward_is_described_by_its_keys() -> None:
    async with running(Chosen.app({}, name="chosen")) as url, Caller(url) as caller:
        reply = await caller.post("/verify", asked("no reward"))
    error = reply.body["error"]
    assert (reply.status, error["kind"], error["retryable"]) == (500, "resources", False)
    assert error["message"] == "verify returned a mapping without `reward`; its keys are: why"


async def test_a_field_that_is_not_json_is_named() -> None:
    async with running(Chosen.app({}, name="chosen")) as url, Caller(url) as caller:
        reply = await caller.post("/verify", asked("set"))
    error = reply.body["error"]
    assert (reply.status, error["kind"], error["retryable"]) == (500, "resources", False)
    assert error["message"] == "verify returned a field 'seen' that is not JSON: Type is not JSON serializable: set"


async def test_a_bug_in_a_verifier_names_its_line_and_is_not_a_reward() -> None:
    async with running(Chosen.app({}, name="chosen")) as url, Caller(url) as caller:
        reply = await caller.post("/verify", asked("divide"))
    assert (reply.status, reply.body["error"]["kind"], reply.body["error"]["retryable"]) == (500, "resources", False)
    message = reply.body["error"]["message"]
    assert message.startswith("ZeroDivisionError: division by zero (test_resources.py:")
    assert message.endswith("in verify: return 1 / len(rollout.function_calls))")


async def test_a_model_that_a_verifier_cannot_fill_is_its_bug_and_not_the_rows() -> None:
    async with running(Chosen.app({}, name="chosen")) as url, Caller(url) as caller:
        reply = await caller.post("/verify", asked("parse"))
    assert (reply.status, reply.body["error"]["kind"]) == (500, "resources")
    assert "in verify: return StartRow.model_validate({})" in reply.body["error"]["message"]


async def test_a_verifier_that_ran_out_of_time_says_timeout() -> None:
    async with running(Chosen.app({}, name="chosen")) as url, Caller(url) as caller:
        reply = await caller.post("/verify", asked("time"))
    assert (reply.status, reply.body["error"]["kind"]) == (504, "timeout")
    message = reply.body["error"]["message"]
    assert message.startswith("the compiler took 10 s (test_resources.py:")
    assert message.endswith('in verify: raise TimeoutError("the compiler took 10 s"))')


async def test_without_a_verifier_nothing_is_scored() -> None:
    class Bare(ResourcesServer[None]):
        """Only tools."""

    async with running(Bare.app({}, name="bare")) as url, Caller(url) as caller:
        reply = await caller.post("/verify", asked())
    assert reply.status == 500
    assert "Bare has no verify" in reply.body["error"]["message"]


# Bad bodies.


@pytest.mark.parametrize(
    ("path", "body", "place"),
    [
        ("/seed_session", {"responses_create_params": {"input": "x"}}, "start: Field required"),
        ("/seed_session", {"responses_create_params": {"input": 5}, "start": 1}, "responses_create_params.input"),
        ("/seed_session", b"{", "body: Invalid JSON"),
        ("/seed_session", b"", "body: Invalid JSON"),
        ("/seed_session", b"\xff\xfe", "body: Invalid JSON"),
        ("/seed_session", b'{"responses_create_params":{},"start":1,"x":NaN}', "body: not JSON"),
        ("/verify", b'{"responses_create_params":{},"response":{"output":[]},"x":-Infinity}', "body: not JSON"),
        ("/verify", [], "body: Input should be an object"),
        ("/verify", {"response": {"output": []}}, "responses_create_params: Field required"),
        ("/verify", ROW, "response: Field required"),
        ("/verify", ROW | {"response": {"output": "text"}}, "response.output: Input should be a valid array"),
        ("/aggregate_metrics", {"verify_responses": 5}, "verify_responses"),
        ("/aggregate_metrics", b"{", "body: not JSON"),
    ],
)
async def test_a_bad_body_is_reported_where_it_is_bad(path: str, body: Any, place: str) -> None:
    async with running(counting_server()) as url, Caller(url) as caller:
        reply = await caller.post(path, body)
    assert (reply.status, reply.body["error"]["kind"], reply.body["error"]["retryable"]) == (422, "row", False)
    assert place in reply.body["error"]["message"]
    assert reply.reply.header(b"x-gym-error") == b"row"


# Tools.


async def test_a_tool_answers_with_its_result_and_bad_arguments_with_their_place() -> None:
    async with running(counting_server()) as url, Caller(url) as caller:
        assert (await caller.post("/plain")).reply.body == b'"same for all"'
        reply = await caller.post("/add", {"number": "many"})
    assert reply.status == 422
    assert reply.body["detail"][0]["loc"] == ["body", "number"]


async def test_a_tool_that_breaks_names_its_line_and_keeps_the_session() -> None:
    async with running(counting_server()) as url, Caller(url) as caller:
        await caller.post("/seed_session", ROW)
        reply = await caller.post("/broken")
        assert reply.status == 500
        assert re.search(
            r"LookupError: no counter \(counting_server.py:\d+ in broken\)$", reply.body["error"]["message"]
        )
        assert (await caller.post("/add", {"number": 1})).body == 4


async def test_the_tools_tell_their_schemas() -> None:
    async with running(counting_server()) as url, Caller(url) as caller:
        body = (await caller.get("/tools")).body
    assert [one["name"] for one in body] == ["add", "broken", "plain"]
    assert body[0]["parameters"]["properties"] == {"number": {"type": "integer"}}


# Metrics and docs.


async def test_metrics_of_a_server_stand_beside_the_baseline() -> None:
    class Counted(Chosen):
        def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
            return {"replies": len(replies)}

    async with running(Counted.app({}, name="counted")) as url, Caller(url) as caller:
        body = (await caller.post("/aggregate_metrics", {"verify_responses": [{"reward": 1.0}, {"reward": 0.0}]})).body
        mode = (await caller.get("/reverify_mode")).body
    assert body["agent_metrics"]["mean/reward"] == 0.5
    assert body["agent_metrics"]["replies"] == 2
    assert body["key_metrics"] == {"mean/reward": 0.5}
    assert mode == "unknown"


async def test_the_docs_show_an_authors_own_fields() -> None:
    async with running(counting_server()) as url, Caller(url) as caller:
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
        assert json.loads(join_body(answer.body)) == body | {"reward": 0.5}

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
