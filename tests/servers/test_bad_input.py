"""Bad rows and answers that are none, put to every server that runs here: a refusal that names the field, or 0 with a
reason. `gym audit` puts the same to those that need a sandbox or packages of their own."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest

from gym.cli.audit.bad_rows import WRONG, bad_rows
from gym.cli.audit.process import refuse_bad_rows
from gym.cli.audit.subject import AuditSubject
from gym.cli.audit.worthless_answers import worthless_answers
from gym.cli.verifying import case_fields
from gym.config import find_server
from gym.server.cases import CASES, load_cases, started
from gym.server.testing import Caller
from gym.wire.items import function_call, message
from tests.support.shipped import RESOURCES, SERVERS, folder_of, shipped_app, why_not_here

HERE = [name for name in RESOURCES if not why_not_here(name)]
NEED_NO_FIELDS = ("simple_weather", "mcp_weather", "multi_turn", "xstest")
WITH_TOOLS = (
    *("google_search", "math_advanced_calculations", "mcp_weather", "multi_step"),
    *("simple_weather", "single_tool_call_multireward", "stateful_counter", "workplace_assistant"),
)
NO_ARGUMENTS = (b"", b"{", b"[]", b"null", b"{}", b'{"a":' * 2000, b'{"no such argument": 1}')
ODD = (2**70, float("inf"), float("nan"), "\ud83d", "\0")
NO_ANSWERS = ("empty", "odd items", "oversized")
every_server = pytest.mark.parametrize("name", HERE)


@asynccontextmanager
async def subject_of(name: str) -> AsyncIterator[AuditSubject]:
    fields = case_fields(find_server(name, [SERVERS.parent]))
    cases = load_cases(folder_of(name) / CASES)
    oracle = next(case for case in cases if case.oracle)
    refusing = next((one.judge for one in cases if one.judge and one.expected_reward == 0.0), ())
    with shipped_app(name) as app:
        async with started(app, name, fields | oracle.config) as bench:
            bench.judge.answer = lambda _: refusing[0]
            yield AuditSubject(bench, (oracle,), 0.0, "", refusing)


@every_server
async def test_a_bad_row_is_refused_by_the_name_of_its_field_or_scored(name: str) -> None:
    async with subject_of(name) as subject:
        found = await refuse_bad_rows(subject)
    assert found.passed, found.detail


@every_server
async def test_an_answer_that_is_none_is_worth_nothing_and_gets_a_reason(name: str) -> None:
    async with subject_of(name) as subject:
        case = subject.oracles[0]
        unworthy = case.model_copy(update={"steps": ()})
        for answer in worthless_answers(case.request):
            if answer.check not in NO_ANSWERS:
                continue
            reply = {**case.request["response"], "output": answer.output}
            response = await subject.bench.ask(unworthy, {**case.request, "response": reply})
            assert not isinstance(response, str), response
            assert response.status == 200, (answer.check, response.body)
            if response.body["reward"] == 0.0:
                assert response.body.get("reason"), (answer.check, str(answer.output)[:200])


HALF_A_PAIR = (
    "\\ud800",
    "x\\udc00 \\ud83d",
    '{\\"a\\": \\"\\\\ud800\\"}',
    "```python\\nprint('\\\\udcff \\ud800')\\n```",
)


@every_server
async def test_an_answer_that_is_not_text_is_worth_nothing_and_loses_no_rollout(name: str) -> None:
    """Half a surrogate pair, as an escape and as bytes: in a message, in its reasoning, in what it calls."""
    async with subject_of(name) as subject, Caller(subject.bench.url) as caller:
        row = {**subject.oracles[0].request}
        for text in (*(half.encode() for half in HALF_A_PAIR), b"\xed\xa0\x80 \xff"):
            await caller.post("/seed_session", {key: value for key, value in row.items() if key != "response"})
            output = [message("TEXT"), function_call("TEXT", "TEXT", call_id="TEXT"), message("TEXT")]
            row["response"] = {**row["response"], "output": output}
            reply = await caller.post("/verify", orjson.dumps(row).replace(b"TEXT", text))
            assert reply.status == 200, (text, reply.body)
            if reply.body["reward"] == 0.0:
                assert reply.body.get("reason"), text


def nested(depth: int) -> tuple[str, str]:
    return "[" * depth + "1" + "]" * depth, '{"a": ' * depth + "1" + "}" * depth


DEEP = [
    text for depth in (200, 300, 900, 1100, 50_000) for text in nested(depth)
]  # orjson reads 1,024 levels, writes 254
HUGE = ["9" * 5_000, "1e999", "-Infinity", "[NaN]"]


@every_server
async def test_json_that_is_deeper_than_can_be_written_loses_no_rollout(name: str) -> None:
    """As the whole answer, and in the place of each argument of the calls that would have been right."""
    async with subject_of(name) as subject, Caller(subject.bench.url) as caller:
        row = {**subject.oracles[0].request}
        right = row["response"]["output"]
        for text in (*DEEP, *HUGE):
            await caller.post("/seed_session", {key: value for key, value in row.items() if key != "response"})
            output = [
                {**one, "arguments": with_value(one["arguments"], text)} if "arguments" in one else one for one in right
            ]
            row["response"] = {**row["response"], "output": [*output, message(f"```json\n{text}\n```"), message(text)]}
            reply = await caller.post("/verify", orjson.dumps(row))
            assert reply.status == 200, (text[:20], len(text), reply.body)


def with_value(arguments: str, text: str) -> str:
    """Each value of a call's arguments replaced by a JSON text, which is not parsed here."""
    return "{" + ", ".join(f"{json.dumps(key)}: {text}" for key in json.loads(arguments)) + "}"


@pytest.mark.parametrize("name", WITH_TOOLS)
async def test_a_tool_takes_whatever_arguments_a_model_writes(name: str) -> None:
    """An answer or a refusal; for the model's own mistakes no rollout is lost."""
    async with subject_of(name) as subject, Caller(subject.bench.url) as caller:
        row = {key: value for key, value in subject.oracles[0].request.items() if key != "response"}
        assert (await caller.post("/seed_session", row)).status == 200
        tools = (await caller.get("/tools")).body
        assert tools
        for tool in tools:
            named = dict.fromkeys(tool["parameters"]["properties"], "x")
            changed = [json.dumps({**named, key: value}).encode() for key in named for value in (*WRONG, *ODD)]
            deep = [with_value(json.dumps(named), text).encode() for text in (*DEEP, *HUGE)]
            for arguments in (*NO_ARGUMENTS, *changed, *deep):
                reply = await caller.post(f"/{tool['name']}", arguments)
                assert reply.status < 500, (tool["name"], arguments[:200], reply.body)


@every_server
async def test_a_row_without_its_fields_gets_an_error_that_says_what_belongs_there(name: str) -> None:
    async with subject_of(name) as subject:
        case = subject.oracles[0]
        *_, bare = bad_rows(case.request, few=True)
        reply = await subject.bench.ask(case.model_copy(update={"steps": ()}), bare.request)
    assert not isinstance(reply, str), reply
    if name in NEED_NO_FIELDS:
        assert reply.status == 200, reply.body
    else:
        assert reply.status == 422, reply.body
        assert re.search("expected: |is expected|is needed", reply.body["error"]["message"]), reply.body
