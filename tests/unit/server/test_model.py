"""`Model`: one method written, three dialects served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import openai
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from gym.errors import ConfigError, UserError
from gym.http.pool import HttpClient, Reply
from gym.server.model import Model, ModelConfig
from gym.server.testing import running
from gym.server.upstream import caller
from gym.wire import items

Body = dict[str, Any]
TOKENS = {"prompt_token_ids": [1], "generation_token_ids": [2], "generation_log_probs": [-0.1]}
JSON = [(b"content-type", b"application/json")]


class Echo(Model):
    """Says back the last user text; keeps what it was asked."""

    async def start(self) -> None:
        self.asked: list[Body] = []
        self.callers: list[Any] = []

    async def respond(self, params: Body) -> Body:
        self.asked.append(params)
        self.callers.append(caller.get())
        texts = [items.item_text(item) for item in items.input_items(params.get("input")) if item.get("role") == "user"]
        output = [items.message(texts[-1] if texts else "") | TOKENS]
        return items.response(output, model="echo", params=params, usage=items.text_usage(1, 1))


class WarmthConfig(ModelConfig):
    temperature_default: float = 1.0
    api_key: str = ""
    required: str = "there"


class Configured(Echo):
    config: WarmthConfig


class ChatOnly(Model):
    async def chat(self, body: Body) -> Body:
        message = {"role": "assistant", "content": f"<think>hm</think>{len(body['messages'])}"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return {"id": "c", "object": "chat.completion", "created": 1, "model": "c", "choices": [choice]}


class Served:
    def __init__(self, url: str, http: HttpClient, model: Any) -> None:
        self.url, self.http, self.model = url, http, model

    async def post(self, path: str, body: Any, *headers: tuple[bytes, bytes]) -> Reply:
        raw = body if isinstance(body, bytes) else orjson.dumps(body)
        return await self.http.request("POST", self.url + path, body=raw, headers=[*JSON, *headers], timeout=120)


@asynccontextmanager
async def serving(kind: type[Model], **fields: Any) -> AsyncIterator[Served]:
    app = kind.app(fields, name="m")
    http = HttpClient()
    async with running(app) as url:
        try:
            yield Served(url, http, app.server)
        finally:
            await http.aclose()


@pytest.mark.parametrize("kind", [Echo, ChatOnly])
async def test_one_written_method_gives_all_three_dialects(kind: type[Model]) -> None:
    asked: Any = [{"role": "user", "content": "hi"}]
    async with serving(kind) as served, openai.AsyncOpenAI(api_key="k", base_url=f"{served.url}/v1") as client:
        response = await client.responses.create(model="m", input="hi")
        completion = await client.chat.completions.create(model="m", messages=asked)
        message = orjson.loads((await served.post("/v1/messages", {"messages": asked, "max_tokens": 5})).body)
    Response.model_validate(response.to_dict())
    ChatCompletion.model_validate(completion.to_dict())
    said = "hi" if kind is Echo else "1"
    assert response.output_text == said
    assert cast(str, completion.choices[0].message.content).endswith(said)
    assert message["content"][-1] == {"type": "text", "text": said}


async def test_all_three_dialects_stream_when_asked() -> None:
    asked: Any = [{"role": "user", "content": "hi"}]
    async with serving(Echo) as served, openai.AsyncOpenAI(api_key="k", base_url=f"{served.url}/v1") as client:
        async with client.responses.stream(model="m", input="hi") as stream:
            response = await stream.get_final_response()
        async with client.chat.completions.stream(model="m", messages=asked) as chat_stream:
            completion = await chat_stream.get_final_completion()
        reply = await served.post("/v1/messages", {"messages": asked, "max_tokens": 5, "stream": True})
    assert (response.output_text, completion.choices[0].message.content) == ("hi", "hi")
    assert reply.header(b"content-type") == b"text/event-stream; charset=utf-8"
    assert b'"text_delta","text":"hi"' in reply.body
    assert all("stream" not in params for params in served.model.asked)


async def test_the_models_are_listed() -> None:
    async with serving(Echo) as served, openai.AsyncOpenAI(api_key="k", base_url=f"{served.url}/v1") as client:
        listed = [model.id async for model in client.models.list()]
    assert listed == ["m"]


async def test_unknown_fields_and_token_ids_reach_the_model_and_come_back() -> None:
    asked = [items.message("a") | TOKENS, {"role": "user", "content": "x", "mine": {"deep": [1]}}]
    async with serving(Echo) as served:
        reply = await served.post("/v1/responses", {"input": asked, "top_k": 3, "my_param": {"a": None}})
    assert served.model.asked == [{"input": asked, "top_k": 3, "my_param": {"a": None}}]
    assert TOKENS.items() <= orjson.loads(reply.body)["output"][0].items()


async def test_the_rollout_of_a_path_or_a_header_is_known_while_answering() -> None:
    async with serving(Echo) as served:
        await served.post("/ng-rollout/7-1/v1/responses", {"input": "x"})
        await served.post("/v1/responses", {"input": "x"}, (b"x-gym-rollout-id", b"8-1"), (b"x-gym-timeout", b"30"))
        await served.post("/ng-rollout/9/training-token-capture/v1/responses", {"input": "x"})
        await served.post("/v1/responses", {"input": "x"})
    assert [one.key for one in served.model.callers] == ["7-1", "8-1", "9", ""]
    assert [one.deadline is None for one in served.model.callers] == [True, False, True, True]


async def test_a_model_with_several_upstreams_hands_a_cookie_to_callers_without_a_rollout_id() -> None:
    async with serving(Echo) as served:
        served.model.sets_cookie = True
        first = await served.post("/v1/responses", {"input": "x"})
        cookie = (first.header(b"set-cookie") or b"").partition(b";")[0]
        second = await served.post("/v1/responses", {"input": "x"}, (b"cookie", cookie))
        named = await served.post("/v1/responses", {"input": "x"}, (b"x-gym-rollout-id", b"7"))
    keys = [one.key for one in served.model.callers]
    assert keys[0] == keys[1] != ""
    assert keys[2] == "7"
    assert second.header(b"set-cookie") is named.header(b"set-cookie") is None


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("/v1/responses", b"{", "body: not JSON"),
        ("/v1/responses", [], "body: an object is needed"),
        ("/v1/responses", {}, "input: a text or a list of items is needed, found nothing"),
        ("/v1/responses", {"input": ["x"]}, "input[0]: an object is needed, found str"),
        ("/v1/responses", {"input": [{"content": "x"}]}, "input[0].type"),
        ("/v1/responses", {"input": "x", "tools": {}}, "tools: a list of objects"),
        ("/v1/responses", {"input": "x", "tools": [1]}, "tools[0]: an object is needed, found int"),
        ("/v1/responses", {"input": "x", "reasoning": "high"}, "reasoning: an object is needed, found str"),
        (
            "/v1/responses",
            {"input": [{"role": "assistant", "content": "x", "prompt_token_ids": [1]}]},
            "input[0].prompt_token_ids: token fields come together; missing: generation_token_ids",
        ),
        ("/v1/chat/completions", {}, "messages: a list of objects is needed, found nothing"),
        ("/v1/chat/completions", {"messages": []}, "messages: a list of objects is needed, found an empty list"),
        ("/v1/messages", {"messages": "x"}, "messages: a list of objects is needed, found str"),
    ],
)
async def test_a_bad_body_is_a_422_that_names_the_field(path: str, body: Any, where: str) -> None:
    async with serving(Echo) as served:
        reply = await served.post(path, body)
    error = orjson.loads(reply.body)["error"]
    assert (reply.status, error["kind"], error["retryable"], error["server"]) == (422, "row", False, "m")
    assert where in error["message"]


async def test_a_reply_of_the_wrong_shape_is_the_models_failure_and_says_so() -> None:
    class Broken(Model):
        async def respond(self, params: Body) -> Body:
            return {"text": "x"}

    async with serving(Broken) as served:
        reply = await served.post("/v1/responses", {"input": "x"})
    error = orjson.loads(reply.body)["error"]
    assert (reply.status, error["kind"], error["retryable"]) == (502, "model", False)
    assert "Broken.respond returned no `output` list" in error["message"]


@pytest.mark.parametrize(
    "said",
    [
        *({"status": status, "output": []} for status in ("failed", "cancelled", "queued", "in_progress")),
        {"status": "completed", "output": [], "error": {"code": "server_error"}},
        {"error": {"message": "overloaded"}},
        {"status": "completed", "output": [None]},
        {"status": "completed", "output": [{"type": "message"}, "text"]},
    ],
)
async def test_a_reply_of_a_provider_that_failed_is_a_failure_and_no_empty_answer(said: Body) -> None:
    class Failing(Model):
        async def respond(self, params: Body) -> Body:
            return said

    async with serving(Failing) as served:
        reply = await served.post("/v1/responses", {"input": "x"})
    error = orjson.loads(reply.body)["error"]
    assert (reply.status, error["kind"], error["retryable"]) == (502, "model", True)


async def test_a_slow_answer_ends_with_the_rollouts_deadline() -> None:
    class Slow(Model):
        async def respond(self, params: Body) -> Body:
            await asyncio.Event().wait()
            raise AssertionError

    async with serving(Slow) as served:
        reply = await served.post("/v1/responses", {"input": "x"}, (b"x-gym-timeout", b"0.05"))
    assert (reply.status, orjson.loads(reply.body)["error"]["kind"]) == (504, "timeout")


def test_a_model_that_answers_nothing_says_what_to_override() -> None:
    class Nothing(Model):
        pass

    with pytest.raises(UserError, match="Nothing answers nothing yet"):
        asyncio.run(Nothing.app({}, name="m").start())


def test_an_unknown_field_is_named_with_the_nearest_ones() -> None:
    with pytest.raises(ConfigError, match=r"temprature_default[\s\S]*did you mean temperature_default"):
        asyncio.run(Configured.app({"temprature_default": 2}, name="m").start())


def test_a_mistake_in_the_config_never_shows_a_secret() -> None:
    fields = {"api_key": 987654, "required": None, "temperature_default": "warm"}
    with pytest.raises(ConfigError) as caught:
        asyncio.run(Configured.app(fields, name="m").start())
    assert "987654" not in str(caught.value)
    assert "api_key: Input should be a valid string (found ****)" in str(caught.value)
    assert "temperature_default: " in str(caught.value)
    assert "'warm'" in str(caught.value)


async def test_null_parameters_of_a_request_give_a_reply_that_validates() -> None:
    nulls = {"parallel_tool_calls": None, "tool_choice": None, "tools": None, "metadata": None, "temperature": None}
    async with serving(Echo) as served:
        reply = await served.post("/v1/responses", {"input": "x", **nulls})
    assert Response.model_validate_json(reply.body).parallel_tool_calls is True


FIELD = st.sampled_from(
    ["type", "role", "content", "text", "tools", "tool_choice", "name", "function", "output", "tool_calls", "summary"]
    + ["source", "image_url", "reasoning", "response_format", "arguments", "system", "n", "max_tokens", "detail"]
)
JSON_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(FIELD, inner, max_size=4),
    max_leaves=12,
)
ROLES = st.sampled_from(["user", "assistant", "tool", "system"])
ITEM = st.fixed_dictionaries({"role": ROLES, "content": JSON_VALUE}, optional={"type": st.just("message")})


@settings(max_examples=150, derandomize=True, deadline=None)
@given(
    path=st.sampled_from(["/v1/responses", "/v1/chat/completions", "/v1/messages"]),
    items_=st.lists(ITEM | st.dictionaries(FIELD, JSON_VALUE, max_size=5), min_size=1, max_size=3),
    rest=st.dictionaries(FIELD, JSON_VALUE, max_size=4),
)
def test_no_body_is_answered_with_a_bug_of_ours(path: str, items_: list[Body], rest: Body) -> None:
    body = {**rest, "input": items_, "messages": items_}
    status = asyncio.run(_ask_in_process(path, orjson.dumps(body)))
    assert status in (200, 422), body


async def _ask_in_process(path: str, body: bytes) -> int:
    status = 0
    hot = await Passive.app({}, name="m").start()

    async def receive() -> Body:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)

    await hot({"type": "http", "method": "POST", "path": path, "headers": []}, receive, send)
    return status


class Passive(Model):
    """Looks at nothing, so that whatever breaks is ours; says something by way of chat, so that all is converted."""

    async def chat(self, body: Body) -> Body:
        return {"model": "m", "choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}
