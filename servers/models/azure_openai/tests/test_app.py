"""The azure_openai model against a deployment on a real socket."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson
import pytest
import yaml

from gym.http.pool import HttpClient
from gym.server.serve import load_app
from gym.server.testing import running
from gym.wire import items

HERE = Path(__file__).resolve().parents[1]
Body = dict[str, Any]


@pytest.fixture(scope="module")
def module() -> ModuleType:
    load_app(HERE / "app.py")
    return sys.modules["app"]


class Deployment:
    """Azure's chat endpoint: notes what reached it; refuses when `refusal` is set."""

    def __init__(self) -> None:
        self.asked: list[Body] = []
        self.refusal: Body | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for phase in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{phase}.complete"})
            return
        headers = {key.decode(): value.decode() for key, value in scope["headers"]}
        body = orjson.loads((await receive())["body"])
        target = f"{scope['path']}?{scope['query_string'].decode()}"
        self.asked.append({"target": target, "key": headers.get("api-key"), "body": body})
        call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        message = {"role": "assistant", "content": "hi", "tool_calls": [call]}
        usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        reply = self.refusal or {"id": "c", "model": "gpt", "choices": [choice], "usage": usage}
        await send({"type": "http.response.start", "status": 400 if self.refusal else 200, "headers": []})
        await send({"type": "http.response.body", "body": orjson.dumps(reply)})


async def ask(module: ModuleType, deployment: Deployment, path: str, body: Body) -> tuple[int, Body]:
    http = HttpClient()
    async with running(deployment) as azure:
        fields = {
            "openai_base_url": azure,
            "openai_api_key": "azure-key",
            "openai_model": "gpt-dep",
            "default_query": {"api-version": "2024-10-21"},
        }
        async with running(module.AzureOpenAI.app(fields, name="policy_model")) as url:
            reply = await http.request("POST", url + path, body=orjson.dumps(body), timeout=120)
    await http.aclose()
    return reply.status, orjson.loads(reply.body)


async def test_a_responses_request_reaches_the_deployment_as_chat_with_key_and_version(module: ModuleType) -> None:
    deployment = Deployment()
    tools = [{"type": "function", "name": "f", "parameters": {}, "strict": True}]
    _, reply = await ask(module, deployment, "/v1/responses", {"input": "x", "tools": tools, "tool_choice": "required"})
    [asked] = deployment.asked
    assert asked["target"] == "/openai/deployments/gpt-dep/chat/completions?api-version=2024-10-21"
    assert asked["key"] == "azure-key"
    assert (asked["body"]["model"], asked["body"]["tool_choice"]) == ("gpt-dep", "required")
    assert [item["type"] for item in reply["output"]] == ["message", "function_call"]
    assert reply["usage"]["total_tokens"] == 5


async def test_a_chat_request_passes_through(module: ModuleType) -> None:
    deployment = Deployment()
    _, reply = await ask(module, deployment, "/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]})
    assert reply["choices"][0]["message"]["content"] == "hi"
    assert deployment.asked[0]["body"]["messages"] == [{"role": "user", "content": "x"}]


async def test_a_full_context_is_an_incomplete_empty_answer(module: ModuleType) -> None:
    deployment = Deployment()
    deployment.refusal = {"error": {"message": "maximum context length is 10", "code": "context_length_exceeded"}}
    status, reply = await ask(module, deployment, "/v1/responses", {"input": "x"})
    assert (status, reply["status"], items.output_text(reply["output"])) == (200, "incomplete", "")


async def test_any_other_refusal_carries_azures_own_words(module: ModuleType) -> None:
    deployment = Deployment()
    deployment.refusal = {"error": {"message": "azure-key may not do this", "code": "x"}}
    status, reply = await ask(module, deployment, "/v1/responses", {"input": "x"})
    assert (status, reply["error"]["kind"]) == (422, "model")
    assert reply["error"]["message"].endswith("answered 400: **** may not do this")


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("https://n.openai.azure.com", "https://n.openai.azure.com/openai/deployments/d"),
        ("https://n.openai.azure.com/", "https://n.openai.azure.com/openai/deployments/d"),
        ("https://n.openai.azure.com/openai", "https://n.openai.azure.com/openai/deployments/d"),
        ("https://n.openai.azure.com/openai/deployments/e", "https://n.openai.azure.com/openai/deployments/e"),
        ("https://n.openai.azure.com/openai/v1/", "https://n.openai.azure.com/openai/v1"),
    ],
)
def test_every_usual_form_of_the_base_url_leads_to_the_deployment(module: ModuleType, base: str, url: str) -> None:
    assert module.deployment_url(base, "d") == url


def test_the_shipped_config_has_the_fields_of_the_server(module: ModuleType) -> None:
    written = yaml.safe_load((HERE / "configs" / "azure_openai.yaml").read_text())
    fields = written["policy_model"]["responses_api_models"]["azure_openai"]
    parsed = module.AzureConfig.model_validate(fields)
    assert parsed.default_query == {"api-version": "2024-10-21"}
