"""rLLM's own gateway, from the registry and in an environment of its own, between a stack and the model."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
import pytest_asyncio

from gym.http.pool import HttpClient
from gym.trainers.carried_rows import pack_row
from gym.trainers.rllm import GymRuntime
from tests.support.cli import gym
from tests.support.fake_rllm import write_rllm
from tests.support.fake_vllm import FakeVLLM, Said, fake_vllm

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="module")]
GATEWAY = "rllm-model-gateway==0.1.0"
ROWS = Path(__file__).parents[2] / "servers" / "resources" / "mcqa" / "data" / "example.jsonl"
ON = ("--model", "vllm_model", "--runtime", "local", "--port", "0", "policy_base_url=http://127.0.0.1:1/v1")
ANSWER = Said("Mercury: \\boxed{A}")
SECONDS = 1800.0


@dataclass
class Setup:
    url: str
    gateway: str
    vllm: FakeVLLM
    http: HttpClient

    async def send(self, method: str, path: str, body: Any = None) -> Any:
        data = b"" if body is None else orjson.dumps(body)
        headers = [(b"content-type", b"application/json")]
        reply = await self.http.request(method, self.gateway + path, body=data, headers=headers, timeout=60)
        assert reply.status == 200, reply.body
        return orjson.loads(reply.body)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def setup(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Setup]:
    folder = tmp_path_factory.mktemp("gateway")
    for argv in ((sys.executable, "-m", "venv", "venv"), ("venv/bin/pip", "install", "--quiet", GATEWAY)):
        await asyncio.to_thread(subprocess.run, argv, cwd=folder, check=True, timeout=SECONDS)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    words = ("--host", "127.0.0.1", "--port", str(port), "--store", "memory")
    async with fake_vllm(says=lambda _: ANSWER) as vllm:
        with subprocess.Popen(("venv/bin/rllm-model-gateway", *words), cwd=folder) as process:
            http = HttpClient()
            try:
                settings = ("policy_api_key=none", "policy_model_name=policy")
                up = await asyncio.to_thread(gym, "up", "mcqa", *ON, *settings, cwd=folder, timeout=300)
                assert up.returncode == 0, up.stderr
                info = await asyncio.to_thread(gym, "ps", "--json", cwd=folder)
                setup = Setup(str(orjson.loads(info.stdout)["router"]), f"http://127.0.0.1:{port}", vllm, http)
                await until_healthy(setup)
                await setup.send("POST", "/admin/workers", {"url": vllm.url, "worker_id": "one"})
                yield setup
            finally:
                process.terminate()
                await http.aclose()
                await asyncio.to_thread(gym, "down", cwd=folder)


async def until_healthy(setup: Setup) -> None:
    async with asyncio.timeout(120):
        while True:
            try:
                await setup.send("GET", "/health")
                return
            except OSError:
                await asyncio.sleep(0.1)


@pytest.fixture(autouse=True)
def rllm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rllm(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


async def submission(setup: Setup, row: dict[str, Any], **fields: Any) -> Any:
    session = await setup.send("POST", "/sessions", {})
    url = setup.gateway + session["url"]
    return SimpleNamespace(task=pack_row(row), session_id=session["session_id"], task_id="t", inference_url=url)


async def test_each_session_of_the_gateway_has_the_calls_and_the_token_ids_of_its_own_rollout(setup: Setup) -> None:
    rows = [orjson.loads(line) for line in ROWS.read_bytes().splitlines()[:2]]
    submissions = [await submission(setup, row) for row in rows]
    found = await GymRuntime(setup.url).execute_tasks(submissions, timeout=120.0)
    assert [(one.finished, one.reward) for one in found] == [(True, 1.0), (True, 0.0)]
    await setup.send("POST", "/admin/flush")
    for row, one in zip(rows, submissions, strict=True):
        (trace,) = await setup.send("GET", f"/sessions/{one.session_id}/traces")
        assert trace["messages"][-1]["content"] == row["responses_create_params"]["input"][-1]["content"]
        assert trace["completion_token_ids"] == setup.vllm.ids(f"{ANSWER.text}<|end|>")
        assert trace["prompt_token_ids"] in [setup.vllm.prompt(body) for body in setup.vllm.bodies()]
        assert len(trace["logprobs"]) == len(trace["completion_token_ids"])


async def test_a_model_that_fails_behind_the_gateway_is_a_failure_without_a_reward(setup: Setup) -> None:
    row = orjson.loads(ROWS.read_bytes().splitlines()[0])
    setup.vllm.status = (400, {"error": {"message": "no such model"}})
    (found,) = await GymRuntime(setup.url).execute_tasks([await submission(setup, row)], timeout=120.0)
    setup.vllm.status = None
    assert (found.finished, found.reward, found.raw_result["kind"]) == (False, None, "model")
