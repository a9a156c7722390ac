"""Recorded sessions of a running stack: the unmodified clients of OpenAI and Anthropic, two replicas, one trace."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anthropic
import openai
import pytest

from gym.testing import GymStack
from gym.wire.failures import RolloutError

ROWS = Path(__file__).parents[2] / "servers" / "resources" / "simple_weather" / "data" / "example.jsonl"
AGENT = "simple_weather_simple_agent"


@pytest.fixture(scope="module")
def up() -> Iterator[GymStack]:
    with GymStack("simple_weather", runtime="local").with_replicas("policy_model", 2) as stack:
        yield stack


def send(up: GymStack, method: str, path: str, **headers: str) -> tuple[int, Any]:
    where = urlsplit(model_of(up))
    assert where.hostname is not None
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=60)
    try:
        connection.request(method, where.path + path, headers=headers)
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())
    finally:
        connection.close()


def model_of(up: GymStack) -> str:
    return f"{up.url}/s/policy_model"


def ask_in_every_dialect(base: str, **headers: str) -> list[str]:
    """What the clients read, streamed and not. Each keeps the cookies that it is given, none has another's."""
    said = []
    with openai.OpenAI(base_url=f"{base}/v1", api_key="none", default_headers=headers) as client:
        chat = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "chat"}])
        said.append(chat.choices[0].message.content or "")
        chunks = client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "chat stream"}], stream=True
        )
        said.append("".join(one.choices[0].delta.content or "" for one in chunks if one.choices))
    with openai.OpenAI(base_url=f"{base}/v1", api_key="none", default_headers=headers) as client:
        said.append(client.responses.create(model="m", input="response").output_text)
        with client.responses.stream(model="m", input="response stream") as events:
            events.until_done()
            said.append(events.get_final_response().output_text)
    with anthropic.Anthropic(base_url=base, api_key="none", default_headers=headers) as talker:
        message = talker.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "message"}])
        said += [block.text for block in message.content if block.type == "text"]
        asked: list[Any] = [{"role": "user", "content": "message stream"}]
        with talker.messages.stream(model="m", max_tokens=9, messages=asked) as stream:
            said.append(stream.get_final_text())
    return said


def test_unmodified_clients_of_all_dialects_are_recorded_as_one_session(up: GymStack) -> None:
    said = ask_in_every_dialect(f"{model_of(up)}/sessions/all-dialects")
    status, trace = send(up, "GET", "/sessions/all-dialects/trace")
    assert status == 200, trace
    found = trace["calls"]
    assert [one["path"].rpartition("/")[2] for one in found] == ["completions"] * 2 + ["responses"] * 2 + [
        "messages"
    ] * 2
    assert [one["stream"] for one in found] == [False, True] * 3
    assert [said_in(one["reply"]) for one in found] == said
    assert len({one["id"].split("-")[-2] for one in found}) == 2, "one of the replicas had nothing to do"
    assert trace["complete"]
    assert send(up, "DELETE", "/sessions/all-dialects") == (200, {"session_id": "all-dialects", "deleted": 6})
    assert send(up, "GET", "/sessions/all-dialects/trace")[0] == 404


def said_in(reply: dict[str, Any]) -> str:
    if "choices" in reply:
        return str(reply["choices"][0]["message"]["content"])
    blocks = reply["content"] if "content" in reply else reply["output"][-1]["content"]
    return "".join(block["text"] for block in blocks)


def test_a_session_with_a_token_is_its_owners_whichever_replica_is_asked(up: GymStack) -> None:
    base, token = f"{model_of(up)}/sessions/claimed", {"x-gym-session-token": "mine"}
    ask_in_every_dialect(base, **token)
    for _ in range(4):
        with openai.OpenAI(base_url=f"{base}/v1", api_key="none", max_retries=0) as client:
            with pytest.raises(openai.ConflictError) as refused:
                client.responses.create(model="m", input="intruder")
            assert refused.value.body["kind"] == "row"  # type: ignore[index]
        assert send(up, "GET", "/sessions/claimed/trace")[0] == 409
    status, trace = send(up, "GET", "/sessions/claimed/trace", **token)
    assert status == 200
    assert len(trace["calls"]) == 6


def test_a_stream_that_its_reader_leaves_is_recorded_whole(up: GymStack) -> None:
    asked: list[Any] = [{"role": "user", "content": "leave"}]
    with openai.OpenAI(base_url=f"{model_of(up)}/sessions/left/v1", api_key="none") as client:
        stream = client.chat.completions.create(model="m", messages=asked, stream=True)
        next(iter(stream))
        stream.close()
    status, trace = send(up, "GET", "/sessions/left/trace")
    assert status == 200
    assert [(one["status"], one["stream"]) for one in trace["calls"]] == [(200, True)]
    assert said_in(trace["calls"][0]["reply"])


def test_an_id_that_cannot_be_is_refused_to_the_client(up: GymStack) -> None:
    with (
        openai.OpenAI(base_url=f"{model_of(up)}/sessions/a%2Fb/v1", api_key="none", max_retries=0) as client,
        pytest.raises(openai.NotFoundError, match="an ID is of letters"),
    ):
        client.responses.create(model="m", input="x")


def test_a_run_returns_its_model_calls_when_asked(up: GymStack) -> None:
    row = json.loads(ROWS.read_text("utf-8").splitlines()[0])
    with up.connect() as stack:
        plain, traced = stack.run(row, agent=AGENT), stack.run({**row, "return_trace": True}, agent=AGENT)
        assert "trace" not in plain
        assert (traced["reward"], traced["trace"]["complete"]) == (1.0, True)
        output = [item for one in traced["trace"]["calls"] for item in one["reply"]["output"]]
        assert output == [item for item in traced["response"]["output"] if item["type"] != "function_call_output"]
        with pytest.raises(RolloutError, match="return_trace"):
            stack.run({**row, "return_trace": "yes"}, agent=AGENT)
