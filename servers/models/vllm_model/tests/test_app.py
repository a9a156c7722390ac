"""The vllm_model against a small vLLM on a real socket; tests/servers/test_vllm_model.py has the rest."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson
import pytest
import yaml

from gym.errors import GymError
from gym.server.serve import load_app
from gym.server.testing import Caller, running

HERE = Path(__file__).resolve().parents[1]
Body = dict[str, Any]


@pytest.fixture(scope="module")
def module() -> ModuleType:
    load_app(HERE / "app.py")
    return sys.modules["app"]


class Server:
    """Says token ids as vLLM does with `return_token_ids`."""

    def __init__(self) -> None:
        self.asked: list[Body] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for phase in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{phase}.complete"})
            return
        self.asked.append(orjson.loads((await receive())["body"]))
        content = [{"token": "token_id:3", "logprob": -0.5}, {"token": "token_id:4", "logprob": 0.0}]
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": "Oslo is cold.", "reasoning": "Let me see."},
            "finish_reason": "stop",
            "token_ids": [3, 4],
            "logprobs": {"content": content},
        }
        reply = {"id": "c", "model": "tiny", "choices": [choice], "prompt_token_ids": [1, 2]}
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": orjson.dumps(reply)})


def fields_of(name: str) -> Body:
    document = yaml.safe_load((HERE / "configs" / f"{name}.yaml").read_text("utf-8"))
    fields: Body = document["policy_model"]["responses_api_models"]["vllm_model"]
    return fields


async def ask(module: ModuleType, name: str) -> tuple[Body, Body]:
    """What the model answers with a shipped configuration, and what it asked."""
    server = Server()
    async with running(server) as upstream:
        fields = {**fields_of(name), "base_url": f"{upstream}/v1", "api_key": "k", "model": "tiny"}
        async with running(module.VLLMModel.app(fields, name="policy_model")) as url, Caller(url) as caller:
            answered = await caller.post("/v1/responses", {"input": "What is the weather in Oslo?"})
    assert answered.status == 200, answered.body
    return answered.body, server.asked[0]


async def test_the_configuration_for_training_gives_token_ids_on_the_last_item(module: ModuleType) -> None:
    reply, asked = await ask(module, "vllm_model_for_training")
    thought, said = reply["output"]
    assert thought["summary"] == [{"type": "summary_text", "text": "Let me see."}]
    assert (said["prompt_token_ids"], said["generation_token_ids"]) == ([1, 2], [3, 4])
    assert said["generation_log_probs"] == [-0.5, 0.0]
    assert (asked["logprobs"], asked["top_logprobs"], asked["return_tokens_as_token_ids"]) == (True, 0, True)


async def test_the_plain_configuration_asks_for_none(module: ModuleType) -> None:
    reply, asked = await ask(module, "vllm_model")
    assert "prompt_token_ids" not in reply["output"][-1]
    assert not {"logprobs", "return_token_ids", "return_tokens_as_token_ids"} & asked.keys()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"base_url": "http://x/v1"}, "model: Field required"),
        ({"base_url": "x:8000", "model": "m"}, "base URL is not an http"),
        ({"model": "m", "is_responses_native": True, "return_token_id_information": True}, "gives no token ids"),
        ({"base_url": "http://x", "model": "m", "reasoning_parser": "y"}, "did you mean uses_reasoning_parser"),
    ],
)
def test_a_mistake_in_the_config_is_reported_at_the_start(module: ModuleType, fields: Body, words: str) -> None:
    with pytest.raises(GymError, match=words):
        asyncio.run(module.VLLMModel.app(fields, name="policy_model").start())
