"""The agent for command-line programs with what it needs: a broker, an environment with a folder, a model with ids."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gym.sandbox.broker_client import Sandbox, Sandboxes
from gym.server import ResourcesServer, VerifyRequest
from gym.server.testing import Answered, Caller, running
from gym.wire.sandbox import Grant, SandboxSpec
from tests.support.fake_vllm import FakeVLLM, fake_vllm
from tests.support.sandbox_broker import OTHER_TOKEN, TOKEN, BrokerProcess, broker_process
from tests.support.swe import ROOT, Process, server

AGENT = ROOT / "servers" / "agents" / "cli_agent"
MODEL = ROOT / "servers" / "models" / "vllm_model"
ROW = {"responses_create_params": {"input": "Write 42 into answer.txt."}}
# A program of the tests' own: it asks over OPENAI_BASE_URL, runs what the model calls, and ends when it only talks.
PROGRAM = """
import json, os, subprocess, sys, urllib.request

def ask(messages):
    url, key = os.environ["OPENAI_BASE_URL"] + "/chat/completions", os.environ["OPENAI_API_KEY"]
    tools = [{"type": "function", "function": {"name": "sh", "parameters": {"type": "object", "properties": {}}}}]
    body = json.dumps({"model": "any", "messages": messages, "tools": tools, "temperature": 0.5}).encode()
    headers = {"content-type": "application/json", "authorization": "Bearer " + key}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as reply:
        return json.load(reply)["choices"][0]["message"]

def work(messages):
    while True:
        said = ask(messages)
        messages.append({key: said[key] for key in ("role", "content", "tool_calls") if said.get(key)})
        for call in said.get("tool_calls") or ():
            command = json.loads(call["function"]["arguments"])["command"]
            if command == "delegate":
                text = work([{"role": "system", "content": "You help."}, {"role": "user", "content": "Look."}])
            else:
                done = subprocess.run(command, shell=True, capture_output=True, text=True)
                text = done.stdout + done.stderr
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text or "done"})
            if command == "compact":
                messages[:] = [{"role": "user", "content": "So far: it is begun. Go on."}]
        if not said.get("tool_calls"):
            return said["content"]

print(work([{"role": "system", "content": "You work."}, {"role": "user", "content": sys.argv[1]}]))
"""
TINY = {"command": ["python3", "/tmp/tiny.py", "{prompt}"], "files": {"/tmp/tiny.py": PROGRAM}}


class FolderTask(ResourcesServer[Sandbox]):
    """The answer is a file in the sandbox."""

    async def start(self) -> None:
        self.sandboxes = self.own(Sandboxes.from_settings(self.settings))
        await self.sandboxes.begin()

    async def seed(self, row: Any) -> Sandbox:
        spec = SandboxSpec(image=str(self.settings.document["image"]), **self.settings.document.get("spec", {}))
        return await self.sandboxes.create(spec)

    def advertise(self, state: Any) -> dict[str, Any]:
        return {"sandbox_handle": state.share()}

    async def verify(self, rollout: VerifyRequest, state: Sandbox | None) -> dict[str, Any]:
        assert state is not None
        found = await state.exec("cat answer.txt")
        return {"reward": float(found.stdout.text.strip() == "42")}

    async def close(self, state: Sandbox) -> None:
        await state.delete()


class SaidTask(ResourcesServer[None]):
    """The answer is what was said; it knows of no sandbox."""

    async def verify(self, rollout: VerifyRequest) -> float:
        return float("done" in rollout.output_text)


@dataclass
class Stack:
    vllm: FakeVLLM
    model: Process
    environment: str
    broker: BrokerProcess
    folder: Path

    @asynccontextmanager
    async def agent(self, program: Mapping[str, Any], *, environment: str = "", **fields: Any) -> AsyncIterator[Caller]:
        """Of another instance than the environment: it holds a token of its own."""
        document = {
            "policy": {"responses_api_models": {"vllm_model": self.model.address}},
            "env": {"resources_servers": {"any": Process(environment or self.environment, self.folder).address}},
        }
        references = {
            "model_server": {"type": "responses_api_models", "name": "policy"},
            "resources_server": {"type": "resources_servers", "name": "env"},
        }
        fields = {"program": dict(program), **references, **fields}
        log = self.folder / "agent.log"
        running_agent = server(
            AGENT, log, fields, name="agent", document=document, broker=self.broker, token=OTHER_TOKEN
        )
        process = await asyncio.to_thread(running_agent.__enter__)
        try:
            async with Caller(process.url) as caller:
                yield caller
        finally:  # in a thread: it still speaks to the environment, which is on this event loop
            await asyncio.to_thread(running_agent.__exit__, None, None, None)

    async def run(self, program: Mapping[str, Any], row: Mapping[str, Any] = ROW, **fields: Any) -> Answered:
        async with self.agent(program, **fields) as caller:
            return await caller.post("/run", dict(row))


@asynccontextmanager
async def cli_stack(
    folder: Path,
    provider: str = "bubblewrap",
    *,
    image: str = "host",
    spec: Mapping[str, Any] | None = None,
    **knobs: Any,
) -> AsyncIterator[Stack]:
    grant = Grant(images=("*",), build=True, warm=0, max_memory=4 << 30)
    document = {"image": image, "spec": dict(spec or {})}
    async with fake_vllm() as vllm:
        with broker_process(folder, provider, grant=grant, other=grant, **knobs) as broker:
            fields = {"base_url": vllm.url, "model": "tiny", "return_token_id_information": True}
            env = FolderTask.app({}, name="env", document=document, sandbox_url=broker.url, sandbox_token=TOKEN)
            with server(MODEL, folder / "model.log", fields, name="policy") as model:
                async with running(env) as environment:
                    yield Stack(vllm, model, environment, broker, folder)
