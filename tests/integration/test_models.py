"""The model servers as real processes: before a provider, behind the official client, serving the reference agent."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import orjson
import pytest
import yaml

from gym import labels
from gym.http.pool import HttpClient
from gym.server.testing import Caller
from gym.wire import items
from tests.support.fake_openai import Failure, fake_openai

SERVERS = Path(__file__).resolve().parents[2] / "servers"
FOLDERS = {"responses_api_models": "models", "resources_servers": "resources", "responses_api_agents": "agents"}
EXAMPLES = ("simple_weather", "stateful_counter", "multi_step", "mcqa")
Body = dict[str, Any]
Document = dict[str, Body]


def shipped(path: str, **fields: Any) -> Document:
    """A shipped config with some fields replaced."""
    document: Document = yaml.safe_load((SERVERS / path).read_text("utf-8"))
    for block in document.values():
        own(block).update(fields)
    return document


def simple_agent_of(name: str) -> Document:
    """What `gym.config` adds to a file that names no agent."""
    fields = {
        "entrypoint": "app.py",
        "resources_server": {"type": "resources_servers", "name": name},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
    }
    return {f"{name}_simple_agent": {"responses_api_agents": {"simple_agent": fields}}}


def own(block: Body) -> Body:
    [by_implementation] = block.values()
    [fields] = by_implementation.values()
    assert isinstance(fields, dict)
    return fields


@asynccontextmanager
async def processes(document: Document) -> AsyncIterator[dict[str, str]]:
    """Every instance of a config as a process of its own; yields where each listens."""
    async with AsyncExitStack() as stack:
        listeners = {name: stack.enter_context(_listener()) for name in document}
        for name, listener in listeners.items():
            own(document[name]).update(host="127.0.0.1", port=listener.getsockname()[1])
        for name, listener in listeners.items():
            process = _spawn(name, document, listener)
            stack.callback(_end, process)
        urls = {name: f"http://127.0.0.1:{one.getsockname()[1]}" for name, one in listeners.items()}
        for url in urls.values():
            await _wait_until_ready(url)
        yield urls


def _listener() -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    return listener


def _spawn(
    name: str, document: Mapping[str, Any], listener: socket.socket, stderr: int | None = None
) -> subprocess.Popen[bytes]:
    [(server_type, by_implementation)] = document[name].items()
    [implementation] = by_implementation
    environ = {
        **os.environ,
        labels.ENV_CONFIG: orjson.dumps(document).decode(),
        labels.ENV_INSTANCE: name,
        labels.ENV_LISTEN: f"fd:{listener.fileno()}",
        labels.ENV_DRAIN: "1",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "gym.server.serve", "app.py"],
        cwd=SERVERS / FOLDERS[server_type] / implementation,
        env=environ,
        pass_fds=[listener.fileno()],
        stderr=stderr,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(60)
    finally:
        process.kill()
        process.wait()


async def _wait_until_ready(url: str) -> None:
    http = HttpClient()
    async with asyncio.timeout(120):
        while True:
            try:
                if (await http.request("GET", f"{url}/healthz", timeout=5)).status == 200:
                    break
            except (OSError, TimeoutError):
                pass
            await asyncio.sleep(0.02)
    await http.aclose()


def example_rows(name: str) -> list[Body]:
    path = SERVERS / "resources" / name / "data" / "example.jsonl"
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


async def test_the_scripted_model_solves_the_toolkits_own_servers() -> None:
    document = shipped("models/scripted/configs/scripted.yaml")
    for name in EXAMPLES:
        document |= shipped(f"resources/{name}/configs/{name}.yaml") | simple_agent_of(name)
    rewards: dict[str, list[float]] = {}
    async with processes(document) as urls:
        for name in (*EXAMPLES, "mcqa"):
            before = rewards.get(name)
            rewards[name] = []
            for row in example_rows(name):
                async with Caller(urls[f"{name}_simple_agent"]) as caller:
                    answered = await caller.post("/run", row)
                assert answered.status == 200, answered.body
                rewards[name].append(answered.body["reward"])
            assert before in (None, rewards[name])
    for name in ("simple_weather", "stateful_counter", "multi_step"):
        assert rewards[name] == [1.0] * 5, name
    assert set(rewards["mcqa"]) == {0.0, 1.0}


@pytest.mark.parametrize("api", ["responses", "chat"])
async def test_the_official_client_sees_no_difference_between_a_model_server_and_its_provider(api: str) -> None:
    tool: Any = {"type": "function", "name": "f", "parameters": {}, "strict": False}
    asked: Any = [{"role": "user", "content": "hi"}]

    def answer(body: Body) -> list[items.Item]:
        return [items.function_call("f", '{"a":1}', call_id="c1")] if body.get("tools") else [items.message("hello")]

    async with fake_openai(answer=answer, api_key="sk-abcdef") as provider:
        fields = {"openai_base_url": provider.url, "openai_api_key": "sk-abcdef", "openai_model": "real"}
        document = shipped("models/openai/configs/openai.yaml", **fields, upstream_api=api)
        async with (
            processes(document) as urls,
            openai.AsyncOpenAI(api_key="unused", base_url=f"{urls['policy_model']}/v1", max_retries=0) as client,
        ):
            response = await client.responses.create(model="any", input="hi")
            called = await client.responses.create(model="any", input="hi", tools=[tool])
            completion = await client.chat.completions.create(model="any", messages=asked)
            async with client.responses.stream(model="any", input="hi") as stream:
                streamed = await stream.get_final_response()
            models = [model.id async for model in client.models.list()]
    assert response.output_text == streamed.output_text == completion.choices[0].message.content == "hello"
    assert [(item.type, getattr(item, "call_id", "")) for item in called.output] == [("function_call", "c1")]
    assert models == ["real"]
    assert {request.body["model"] for request in provider.asked} == {"real"}


async def test_token_ids_of_a_provider_arrive_on_the_last_item_and_go_no_further_than_asked() -> None:
    async with fake_openai(token_ids=True) as provider:
        fields = {
            "openai_base_url": provider.url,
            "openai_api_key": "k",
            "openai_model": "real",
            "upstream_api": "chat",
        }
        async with (
            processes(shipped("models/openai/configs/openai.yaml", **fields)) as urls,
            Caller(urls["policy_model"]) as caller,
        ):
            answered = await caller.post("/v1/responses", {"input": "two words"})
    last = answered.body["output"][-1]
    assert len(last["generation_token_ids"]) == len(last["generation_log_probs"]) == 3
    assert len(last["prompt_token_ids"]) == 2


async def test_failures_of_a_provider_reach_the_caller_as_the_contract_says() -> None:
    async with fake_openai() as provider:
        fields = {"openai_base_url": provider.url, "openai_api_key": "sk-abcdef", "openai_model": "real"}
        async with (
            processes(shipped("models/openai/configs/openai.yaml", **fields)) as urls,
            Caller(urls["policy_model"]) as caller,
        ):
            provider.failures = [Failure(503, {"error": "busy"}, {"retry-after": "0"})]
            retried = await caller.post("/v1/responses", {"input": "x"})
            provider.failures = [Failure(401, {"error": {"message": "bad key sk-abcdef"}})]
            refused = await caller.post("/v1/responses", {"input": "x"})
            provider.failures = [Failure(400, {"error": {"message": "maximum context length is 9"}})]
            full = await caller.post("/v1/responses", {"input": "x"})
            # Last: a call after it waits the minute that the provider asked for.
            provider.failures = [Failure(429, {"error": "slow"}, {"retry-after": "60"})]
            late = await caller.post("/v1/responses", {"input": "x"}, x_gym_timeout="30")
    assert (retried.status, full.status, full.body["status"]) == (200, 200, "incomplete")
    assert (refused.status, refused.body["error"]["retryable"]) == (502, False)
    assert refused.body["error"]["message"].endswith("answered 401: bad key ****")
    assert (late.status, late.body["error"]["kind"], late.body["error"]["retryable"]) == (502, "model", True)


def test_a_model_without_an_address_does_not_start_and_says_what_to_write() -> None:
    document = shipped("models/openai/configs/openai.yaml", openai_base_url="", openai_model="m", openai_api_key="k")
    with _listener() as listener:
        process = _spawn("policy_model", document, listener, stderr=subprocess.PIPE)
        _, stderr = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "openai_base_url" in stderr.decode()
    assert "Traceback" not in stderr.decode()
