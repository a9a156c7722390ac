"""The edges of the dialects that models serve, seen by the unmodified clients of openai and anthropic."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import openai
import orjson
import pytest

from gym.http.pool import HttpClient
from gym.server import Agent, Model
from gym.server.testing import running
from gym.wire import items
from gym.wire.anthropic import estimate_tokens
from gym.wire.failures import RolloutError
from tests.support.policies import agents, stand

Body = dict[str, Any]
ASK: Any = [{"role": "user", "content": "hello"}]


class Moody(Model):
    """Answers, or fails as it is asked to."""

    async def respond(self, params: Body) -> Body:
        said = items.last_user_text(params.get("input"))
        if said == "late":
            raise RolloutError("timeout", "too late")
        if said == "busy":
            raise RolloutError("model", "busy", status=503)
        if said == "bug":
            raise ZeroDivisionError("boom")
        return items.response([items.message(f"you said {said}")], model="tiny", usage=items.text_usage(1, 1))

    def model_names(self) -> list[str]:
        return ["org/tiny-1"]


@asynccontextmanager
async def claude() -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with (
        running(Moody.app({}, name="policy_model")) as url,
        anthropic.AsyncAnthropic(api_key="k", base_url=url, max_retries=0) as client,
    ):
        yield client


async def test_anthropics_client_counts_tokens() -> None:
    async with claude() as client:
        short = await client.messages.count_tokens(model="m", messages=ASK)
        tool: Any = {"name": "f", "description": "x" * 4000, "input_schema": {"type": "object"}}
        long = await client.messages.count_tokens(model="m", messages=ASK, system="s" * 4000, tools=[tool])
    assert 1 <= short.input_tokens < 100
    assert 2000 < long.input_tokens < 2500


def test_an_image_counts_as_one_whatever_its_bytes() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 1_000_000}
    counted = estimate_tokens({"input": [{"role": "user", "content": [{"type": "input_text", "text": "hi"}, image]}]})
    assert 1500 <= counted < 1600


@pytest.mark.parametrize(
    ("said", "kind", "message"),
    [
        ("late", anthropic.APIStatusError, "timeout_error"),
        ("busy", anthropic.APIStatusError, "overloaded_error"),
        ("bug", anthropic.InternalServerError, "api_error"),
    ],
)
async def test_a_failure_has_anthropics_shape_and_the_contracts_fields(said: str, kind: Any, message: str) -> None:
    async with claude() as client:
        with pytest.raises(kind) as caught:
            await client.messages.create(model="m", max_tokens=5, messages=[{"role": "user", "content": said}])
    body: Any = caught.value.body
    assert (body["type"], body["error"]["type"]) == ("error", message)
    assert {"kind", "server", "message", "retryable"} < body["error"].keys()


async def test_a_bad_request_is_one_for_anthropics_client_too() -> None:
    asked: Any = [{"role": "robot", "content": "x"}]
    async with claude() as client:
        with pytest.raises(anthropic.UnprocessableEntityError) as caught:
            await client.messages.count_tokens(model="m", messages=asked)
    body: Any = caught.value.body
    assert body["error"]["type"] == "invalid_request_error"
    assert "messages[0].role" in body["error"]["message"]


async def test_a_deadline_that_passes_has_that_shape_too() -> None:
    class Slow(Model):
        async def respond(self, params: Body) -> Body:
            import asyncio

            await asyncio.Event().wait()
            raise AssertionError

    http = HttpClient()
    async with running(Slow.app({}, name="policy_model")) as url:
        reply = await http.request(
            "POST",
            f"{url}/v1/messages",
            body=orjson.dumps({"messages": ASK, "max_tokens": 5}),
            headers=[(b"x-gym-timeout", b"0.05")],
            timeout=60,
        )
    await http.aclose()
    assert (reply.status, orjson.loads(reply.body)["error"]["type"]) == (504, "timeout_error")


async def test_one_model_can_be_asked_for_by_name_with_slashes_in_it() -> None:
    async with (
        running(Moody.app({}, name="policy_model")) as url,
        openai.AsyncOpenAI(api_key="k", base_url=f"{url}/v1", max_retries=0) as client,
        anthropic.AsyncAnthropic(api_key="k", base_url=url, max_retries=0) as other,
    ):
        found = await client.models.retrieve("org/tiny-1")
        also = await other.models.retrieve("policy_model")
        listed = [one.id async for one in other.models.list()]
        with pytest.raises(openai.NotFoundError, match="there is no model 'org/huge'"):
            await client.models.retrieve("org/huge")
        with pytest.raises(anthropic.NotFoundError):
            await other.models.retrieve("huge")
    assert (found.id, found.object, also.id, also.type) == ("org/tiny-1", "model", "policy_model", "model")
    assert listed == ["org/tiny-1"]


async def test_an_agent_streams_to_a_client_that_asks_for_it_and_not_from_its_model() -> None:
    async with stand() as made, agents(made, ("agent", Agent, {})) as on:
        async with (
            openai.AsyncOpenAI(api_key="k", base_url=f"{on.urls['agent']}/v1", max_retries=0) as client,
            client.responses.stream(model="any", input="hi") as stream,
        ):
            kinds = [event.type async for event in stream]
            final = await stream.get_final_response()
        params = {"input": "hi", "stream": True, "stream_options": {"include_usage": True}}
        status, body, _ = await on.run("agent", responses_create_params=params)
    assert final.output_text == "echo hi"
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert (status, body["reward"]) == (200, 1.0)
    assert not [name for one in on.policy.asked for name in one.body if name.startswith("stream")]
