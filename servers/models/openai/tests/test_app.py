"""The openai model against a provider on a real socket."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson
import pytest
import yaml

from gym.errors import GymError
from gym.http.pool import HttpClient
from gym.labels import HEADER_ROLLOUT
from gym.server.grown_input import LastRequests
from gym.server.serve import load_app
from gym.server.testing import running
from gym.wire import items

HERE = Path(__file__).resolve().parents[1]
Body = dict[str, Any]
OVERFLOW = {"error": {"message": "This model's maximum context length is 10 tokens."}}


@pytest.fixture(scope="module")
def module() -> ModuleType:
    load_app(HERE / "app.py")
    return sys.modules["app"]


class Provider:
    """Answers both dialects; `refusal` is given instead when it is set."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Body, dict[str, str]]] = []
        self.refusal: tuple[int, Body] | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for phase in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{phase}.complete"})
            return
        body = orjson.loads((await receive())["body"])
        headers = {key.decode(): value.decode() for key, value in scope["headers"]}
        self.asked.append((scope["path"], body, headers))
        status, reply = self.refusal or (200, self._answer(scope["path"]))
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": orjson.dumps(reply)})

    def _answer(self, path: str) -> Body:
        if path.endswith("/responses"):
            return items.response([items.message("as response")], model="real")
        message = {"role": "assistant", "content": "<think>hm</think>as chat", "generation_token_ids": [7]}
        return {"id": "c", "model": "real", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


@asynccontextmanager
async def serving(
    module: ModuleType, provider: Provider | None = None, **fields: Any
) -> AsyncIterator[tuple[Provider, Any]]:
    provider, http = provider or Provider(), HttpClient()
    async with running(provider) as upstream:
        given = {"openai_base_url": f"{upstream}/v1", "openai_api_key": "sk-abcdef", "openai_model": "real", **fields}
        async with running(module.OpenAI.app(given, name="policy_model")) as url:

            async def ask(path: str, body: Body, *headers: tuple[bytes, bytes]) -> tuple[int, Body]:
                reply = await http.request("POST", url + path, body=orjson.dumps(body), headers=headers, timeout=120)
                return reply.status, orjson.loads(reply.body)

            yield provider, ask
    await http.aclose()


async def test_a_request_passes_through_with_the_configured_model_and_key(module: ModuleType) -> None:
    asked = {"input": [{"role": "user", "content": "x"}], "model": "policy", "temperature": 0.5, "mine": 1}
    async with serving(module, openai_default_headers={"x-org": "o"}) as (provider, ask):
        _, reply = await ask("/v1/responses", asked)
    [(path, body, headers)] = provider.asked
    assert (path, body) == ("/v1/responses", {**asked, "model": "real"})
    assert (headers["authorization"], headers["x-org"]) == ("Bearer sk-abcdef", "o")
    assert items.output_text(reply["output"]) == "as response"


async def test_chat_requests_go_to_the_chat_endpoint(module: ModuleType) -> None:
    async with serving(module) as (provider, ask):
        _, reply = await ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]})
    assert provider.asked[0][0] == "/v1/chat/completions"
    assert reply["choices"][0]["message"]["content"] == "<think>hm</think>as chat"


async def test_an_upstream_that_only_chats_serves_responses_and_messages(module: ModuleType) -> None:
    async with serving(module, upstream_api="chat") as (provider, ask):
        _, reply = await ask("/v1/responses", {"input": "x", "max_output_tokens": 5})
        _, message = await ask("/v1/messages", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 5})
    assert [path for path, _, _ in provider.asked] == ["/v1/chat/completions"] * 2
    assert [body["max_tokens"] for _, body, _ in provider.asked] == [5, 5]
    assert [item["type"] for item in reply["output"]] == ["reasoning", "message"]
    assert reply["output"][-1]["generation_token_ids"] == [7]
    assert [block["type"] for block in message["content"]] == ["thinking", "text"]


async def test_extra_body_is_what_the_request_does_not_say(module: ModuleType) -> None:
    async with serving(module, extra_body={"temperature": 1.0, "seed": 3, "model": "no"}) as (provider, ask):
        await ask("/v1/responses", {"input": "x", "temperature": 0.1})
    assert provider.asked[0][1] == {"temperature": 0.1, "seed": 3, "model": "real", "input": "x"}


async def test_reasoning_items_are_dropped_from_the_input_when_asked(module: ModuleType) -> None:
    talk = [{"role": "user", "content": "x"}, items.reasoning("hm"), items.message("y")]
    async with serving(module, drop_input_reasoning_items=True) as (provider, ask):
        await ask("/v1/responses", {"input": talk})
    assert [item.get("type") for item in provider.asked[0][1]["input"]] == [None, "message"]


@pytest.mark.parametrize("fields", [{}, {"upstream_api": "chat"}, {"drop_input_reasoning_items": True}])
async def test_a_long_conversation_is_asked_whole_at_each_step(
    module: ModuleType, fields: Body, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: list[bool] = []  # of each step: was the most of it known?
    grow = LastRequests.grow
    monkeypatch.setattr(LastRequests, "grow", lambda *given: (found := grow(*given), known.append(bool(found)))[0])
    talk: list[Body] = [{"role": "user", "content": "x" * 5000}]
    first, alone = Provider(), Provider()
    async with serving(module, first, **fields) as (_, ask), serving(module, alone, **fields) as (_, ask_alone):
        for step in range(6):
            body = {"input": talk, "tools": [{"type": "function", "name": "add"}]}
            await ask("/v1/responses", body, (HEADER_ROLLOUT.encode(), b"one"))
            await ask_alone("/v1/responses", body)  # of no rollout: nothing is known of it
            talk += [items.reasoning(f"hm {step}"), items.function_call("add", "{}", call_id=f"c{step}")]
            talk += [items.function_call_output(f"c{step}", "1")]
        status, refused = await ask("/v1/responses", {**body, "input": [*talk, 7]}, (HEADER_ROLLOUT.encode(), b"one"))
    assert [body for _, body, _ in first.asked] == [body for _, body, _ in alone.asked]
    assert known == [False, False, True, True, True, True]
    assert status >= 400
    assert f"input[{len(talk)}]: an object is needed" in orjson.dumps(refused).decode()


async def test_a_configured_number_of_any_size_is_sent_with_each_step_of_a_long_conversation(
    module: ModuleType,
) -> None:
    talk: list[Body] = [{"role": "user", "content": "x" * 5000}]
    statuses = []
    async with serving(module, extra_body={"seed": 2**70}) as (provider, ask):
        for step in range(4):
            status, _ = await ask("/v1/responses", {"input": talk}, (HEADER_ROLLOUT.encode(), b"one"))
            statuses.append(status)
            talk += [items.message(f"{step}")]
    assert statuses == [200] * 4
    assert [len(body["input"]) for _, body, _ in provider.asked] == [1, 2, 3, 4]


@pytest.mark.parametrize("api", ["responses", "chat"])
async def test_a_full_context_is_an_incomplete_empty_answer(module: ModuleType, api: str) -> None:
    async with serving(module, upstream_api=api) as (provider, ask):
        provider.refusal = (400, OVERFLOW)
        status, reply = await ask("/v1/responses", {"input": "x"})
        _, completion = await ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]})
    assert (status, reply["status"]) == (200, "incomplete")
    assert reply["incomplete_details"] == {"reason": "max_output_tokens"}
    assert items.output_text(reply["output"]) == ""
    assert completion["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions"])
async def test_any_other_refusal_carries_the_providers_own_words(module: ModuleType, path: str) -> None:
    async with serving(module) as (provider, ask):
        provider.refusal = (400, {"error": {"message": "bad key sk-abcdef"}})
        status, reply = await ask(path, {"input": "x", "messages": [{"role": "user", "content": "x"}]})
    assert status == 422
    assert reply["error"]["message"].endswith("answered 400: bad key ****")
    assert (reply["error"]["kind"], reply["error"]["server"]) == ("model", "policy_model")


async def test_calls_of_one_rollout_stay_with_one_of_several_upstreams(module: ModuleType) -> None:
    first, other, http = Provider(), Provider(), HttpClient()
    async with running(first) as one, running(other) as two:
        fields = {"openai_base_url": [f"{one}/v1", f"{two}/v1"], "openai_model": "m"}
        async with running(module.OpenAI.app(fields, name="policy_model")) as url:
            for rollout in [b"a", b"b", b"c", b"d"] * 3:
                body, headers = orjson.dumps({"input": rollout.decode()}), [(b"x-gym-rollout-id", rollout)]
                await http.request("POST", f"{url}/v1/responses", body=body, headers=headers)
    await http.aclose()
    served = [{body["input"] for _, body, _ in provider.asked} for provider in (first, other)]
    assert served[0] | served[1] == set("abcd")
    assert not served[0] & served[1]


async def test_health_tells_of_the_last_failure_and_stays_ready(module: ModuleType) -> None:
    http = HttpClient()
    app = module.OpenAI.app(
        {"openai_base_url": "http://user:pw@127.0.0.1:1/v1", "openai_model": "m"}, name="policy_model"
    )
    async with running(app) as url:
        app.server.upstream._attempts = 1
        reply = await http.request("POST", f"{url}/v1/responses", body=b'{"input": "x"}')
        health = await http.request("GET", f"{url}/healthz")
    await http.aclose()
    assert reply.status == 502
    body = orjson.loads(health.body)
    assert (health.status, body["upstream"]["urls"]) == (200, ["http://127.0.0.1:1/v1"])
    assert "connection refused" in body["upstream"]["last_error"]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"openai_base_url": "http://x/v1"}, "openai_model: Field required"),
        ({"openai_base_url": "", "openai_model": "m"}, "openai_base_url"),
        ({"openai_base_url": "x:8000", "openai_model": "m"}, "base URL is not an http"),
        ({"openai_base_url": "http://x", "openai_model": "m", "openai_key": "k"}, "did you mean openai_api_key"),
    ],
)
def test_a_mistake_in_the_config_is_reported_at_the_start(module: ModuleType, fields: Body, words: str) -> None:
    with pytest.raises(GymError, match=words):
        asyncio.run(module.OpenAI.app(fields, name="policy_model").start())


def test_the_shipped_config_names_the_three_policy_settings() -> None:
    fields = yaml.safe_load((HERE / "configs" / "openai.yaml").read_text())["policy_model"]["responses_api_models"][
        "openai"
    ]
    assert fields == {
        "entrypoint": "app.py",
        "openai_base_url": "${policy_base_url}",
        "openai_api_key": "${policy_api_key}",
        "openai_model": "${policy_model_name}",
    }


class ChatOnly(Provider):
    """No /responses; `models` that it does not know are a 404 of another kind."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.refusal = (404, {"detail": "Not Found"}) if scope.get("path", "").endswith("/responses") else None
        if self.unknown:
            self.refusal = (404, {"error": {"message": "The model `real` does not exist"}})
        await super().__call__(scope, receive, send)

    unknown = False


async def test_a_chat_endpoint_is_found_out_at_the_first_call_and_remembered(module: ModuleType) -> None:
    async with serving(module, provider=ChatOnly()) as (provider, ask):
        replies = [await ask("/v1/responses", {"input": "x"}) for _ in range(3)]
    assert [path for path, _, _ in provider.asked] == ["/v1/responses", *["/v1/chat/completions"] * 3]
    assert {status for status, _ in replies} == {200}


async def test_an_unknown_model_is_reported_in_the_words_of_the_first_dialect(module: ModuleType) -> None:
    provider = ChatOnly()
    provider.unknown = True
    async with serving(module, provider=provider) as (_, ask):
        status, reply = await ask("/v1/responses", {"input": "x"})
        provider.unknown = False
        again, _ = await ask("/v1/responses", {"input": "x"})
    assert (status, again) == (502, 200)
    assert "does not exist" in reply["error"]["message"]


async def test_an_endpoint_that_speaks_responses_is_never_asked_for_chat(module: ModuleType) -> None:
    async with serving(module) as (provider, ask):
        await ask("/v1/responses", {"input": "x"})
        provider.refusal = (404, {"error": {"message": "gone"}})
        status, _ = await ask("/v1/responses", {"input": "x"})
    assert status == 502
    assert {path for path, _, _ in provider.asked} == {"/v1/responses"}


async def test_a_wrong_upstream_api_is_named_by_the_failure(module: ModuleType) -> None:
    async with serving(module, provider=ChatOnly(), upstream_api="responses") as (provider, ask):
        status, reply = await ask("/v1/responses", {"input": "x"})
    assert status == 502
    assert "upstream_api=chat" in reply["error"]["message"]
    assert len(provider.asked) == 1


@pytest.mark.parametrize("value", ["everything in 10.0.0.0", ["10.0.0.0/99"]])
def test_a_bad_policy_urls_is_reported_at_the_start(module: ModuleType, value: Any) -> None:
    fields = {"openai_base_url": "http://127.0.0.1:1/v1", "openai_model": "m", "policy_urls": value}
    with pytest.raises(GymError, match="policy_urls"):
        asyncio.run(module.OpenAI.app(fields, name="policy_model").start())
