"""A command-line agent from PyPI on a Compose stack: put into the sandbox of each rollout, it solves the task there."""

from __future__ import annotations

import json
import runpy
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gym.broker.providers.docker.image_build import build_tag
from gym.programs import run_program
from gym.testing import GymStack
from tests.support.cli_agent import AGENT, ROW
from tests.support.docker import need_engine, remove_images_of, write_server
from tests.support.sandbox_stack import NOTHING, labelled

pytestmark = [pytest.mark.docker, pytest.mark.long]
TIMEOUT = 1800.0
JSON = {"content-type": "application/json"}
BASE = "gym-test-pip-base:1"
# The certificates of this machine: what `program.base` is for.
DOCKERFILE = """FROM python:3.13-slim
COPY ca.crt /etc/ssl/certs/ca-certificates.crt
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt
"""
FOLDER_TASK = """
from typing import Any

from gym.sandbox.broker_client import Sandbox, Sandboxes
from gym.server import ResourcesServer, VerifyRequest
from gym.wire.sandbox import SandboxSpec


class FolderTask(ResourcesServer[Sandbox]):
    async def start(self) -> None:
        self.sandboxes = self.own(Sandboxes.from_settings(self.settings))
        await self.sandboxes.begin()

    async def seed(self, row: Any) -> Sandbox:
        spec = {"image": "python:3.13-slim", "workdir": "/work", "limits": {"memory": "2g", "pids": 512}}
        return await self.sandboxes.create(SandboxSpec.model_validate(spec))

    def advertise(self, state: Sandbox) -> dict[str, Any]:
        return {"sandbox_handle": state.share()}

    async def verify(self, rollout: VerifyRequest, state: Sandbox) -> float:
        found = await state.exec("cat answer.txt")
        return float(found.stdout.text.strip() == "42")

    async def close(self, state: Sandbox) -> None:
        await state.delete()


app = FolderTask.app()
"""
GRANT = "        domain: coding\n        sandbox: {images: ['python:3.13-slim'], max_memory: 2g, warm: 0}\n"
PROGRAM = {
    "package": "pip:mini-swe-agent==2.4.6",
    "requires": ["mcp"],  # which its litellm imports
    "base": BASE,
    "command": [
        *("mini", "--yolo", "--exit-immediately", "-m", "openai/{model}"),
        *("-t", "{prompt}", "-o", "/tmp/trajectory.json"),
    ],
    "env": {
        "MSWEA_CONFIGURED": "true",
        "MSWEA_COST_TRACKING": "ignore_errors",
        "MSWEA_GLOBAL_CONFIG_DIR": "/tmp/mini",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    },
}


def typed(command: str) -> dict[str, Any]:
    return {"name": "bash", "arguments": {"command": command}}


def configuration() -> dict[str, Any]:
    write, submit = typed("echo 42 > answer.txt"), typed("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")
    rules = [
        {"when": {"after": 0, "tools": ["bash"]}, "call": write},
        {"when": {"after": 1, "tools": ["bash"]}, "call": [write, submit]},  # what has been called is not called again
    ]
    policy = {"entrypoint": "app.py", "rules": rules, "return_token_id_information": True}
    agent = {
        "entrypoint": "app.py",
        "resources_server": {"type": "resources_servers", "name": "folder_task"},
        "model_server": {"type": "responses_api_models", "name": "policy_model"},
        "sandbox": {"build": True, "images": [BASE], "max_memory": "2g", "warm": 0},
        "program": PROGRAM,
    }
    return {
        "policy_model": {"responses_api_models": {"scripted": policy}},
        "mini": {"responses_api_agents": {"cli_agent": agent}},
    }


def run_row(stack: GymStack) -> dict[str, Any]:
    """The first one waits until the program's image is built."""
    asked = urllib.request.Request(f"{stack.url}/s/mini/run", json.dumps(ROW).encode(), JSON)
    try:
        with urllib.request.urlopen(asked, timeout=TIMEOUT) as reply:
            found: dict[str, Any] = json.load(reply)
            return found
    except urllib.error.HTTPError as error:
        with error:
            pytest.fail(f"{error.status}: {error.read().decode()}")


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[GymStack]:
    need_engine()
    made = runpy.run_path(str(AGENT / "program.py"))["ProgramConfig"].model_validate(PROGRAM)
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "ca.crt").write_bytes(Path("/etc/ssl/certs/ca-certificates.crt").read_bytes())
    (tmp_path / "base" / "Dockerfile").write_text(DOCKERFILE)
    run_program(["docker", "build", "-q", "-t", BASE, str(tmp_path / "base")], timeout=TIMEOUT)
    write_server(tmp_path, "folder_task", FOLDER_TASK, config=GRANT)
    (tmp_path / "mini.yaml").write_text(json.dumps(configuration()))
    try:
        with GymStack("folder_task", model=None, runtime="compose", folder=tmp_path).with_config("mini.yaml") as stack:
            yield stack
    finally:
        left = labelled(tmp_path)
        remove_images_of(tmp_path)
        for name in (build_tag(made.source()["build"]), BASE):
            subprocess.run(["docker", "image", "rm", "-f", name], check=False, capture_output=True)
    assert left == NOTHING


def test_mini_swe_agent_solves_a_task_in_a_sandbox_of_a_compose_stack(stack: GymStack) -> None:
    rollout = run_row(stack)
    assert (rollout["reward"], rollout["cli_agent"]["fault"]) == (1.0, ""), rollout["cli_agent"]
    said = [*rollout["response"]["other_sequences"], rollout["response"]]
    made = [item for one in said for item in one["output"] if item.get("generation_token_ids")]
    assert [json.loads(one["arguments"])["command"].split()[0] for one in made] == ["echo", "echo"]
    assert all(len(one["generation_log_probs"]) == len(one["generation_token_ids"]) for one in made)
    assert rollout["cli_agent"]["model_calls"] == 2
