"""`vf-eval` of the package `verifiers`, unmodified, on environments of a stack; its policy is a model of the stack."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli import gym

pytestmark = pytest.mark.long
SERVERS = Path(__file__).parents[2] / "servers"
SECONDS = 1800.0
TASKSET = """
from pathlib import Path
from verifiers.v1.taskset import Taskset
from verifiers.v1.tasksets.nemo_gym import NeMoGymConfig, NeMoGymTask, NeMoGymTaskset
class Config(NeMoGymConfig):
    dataset: Path = Path("{rows}")
class StackTaskset(NeMoGymTaskset, Taskset[NeMoGymTask, Config]): ...
__all__ = ["StackTaskset"]
"""
SAY_WEATHER = {"when": {"called": "get_weather"}, "say": "{output.weather}"}
Trace = dict[str, Any]


@dataclass
class Stack:
    folder: Path
    url: str

    def served(self, server: str) -> Counter[tuple[str, int]]:
        """The paths of a server that were asked for, and the statuses, as the router saw them."""
        lines = (self.folder / ".gym" / "gym" / "access.log").read_text().splitlines()
        seen = [(one["RequestPath"], one["DownstreamStatus"]) for one in map(json.loads, lines) if "RequestPath" in one]
        start = f"/s/{server}/"
        return Counter((path.removeprefix(start), status) for path, status in seen if path.startswith(start))


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("stack")
    config = yaml.safe_load((SERVERS / "models" / "scripted" / "configs" / "scripted.yaml").read_text())
    config["policy_model"]["responses_api_models"]["scripted"]["rules"].insert(0, SAY_WEATHER)
    (folder / "policy.yaml").write_text(yaml.safe_dump(config))
    try:
        words = ("up", "stateful_counter", "mcp_weather", "-c", "policy.yaml", "--runtime", "local", "--port", "0")
        up = gym(*words, cwd=folder, timeout=300)
        assert up.returncode == 0, up.stderr
        yield Stack(folder, json.loads(gym("ps", "--json", cwd=folder).stdout)["router"])
    finally:
        gym("down", cwd=folder)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verifiers")
    install = (str(folder / "bin" / "pip"), "install", "--quiet", "verifiers==0.4.0", "uv")
    for argv in ((sys.executable, "-m", "venv", str(folder)), install):
        subprocess.run(argv, check=True, timeout=SECONDS)
    return folder / "bin"


def evaluate(stack: Stack, programs: Path, folder: Path, environment: str, server: str = "") -> list[Trace]:
    """The traces of three rows of the environment, put to `server` of the stack."""
    rows = SERVERS / "resources" / environment / "data" / "example.jsonl"
    (folder / "stack_rows.py").write_text(TASKSET.format(rows=rows))
    words = {
        "--env.taskset.task.resources-url": f"{stack.url}/s/{server or environment}",
        "--client.base-url": f"{stack.url}/s/policy_model/v1",
        "--client.api-key-var": "NO_KEY",
        "--env.agent.harness.id": "null",
        "--env.agent.runtime.type": "subprocess",
        "-m": "scripted",
        "-n": "3",
    }
    path = f"{programs}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "HOME": str(folder), "PYTHONPATH": str(folder), "NO_KEY": "x"}
    argv = (str(programs / "vf-eval"), "stack_rows", *(part for pair in words.items() for part in pair))
    done = subprocess.run(
        (*argv, "--no-push", "--no-rich"), cwd=folder, env=env, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = folder.glob("outputs/*/traces.jsonl")
    episodes = [json.loads(line) for line in found.read_text().splitlines()]
    assert len(episodes) == 3
    return [trace for episode in episodes for trace in episode["traces"]]


def test_a_session_is_kept_by_its_cookie_from_seed_over_the_tools_to_verify(
    stack: Stack, programs: Path, tmp_path: Path
) -> None:
    traces = evaluate(stack, programs, tmp_path, "stateful_counter")
    assert [one["rewards"]["nemo_gym"]["score"] for one in traces] == [1.0] * 3, traces
    for one in traces:  # three sessions at once, each with a count of its own
        assert one["errors"] == []
        assert one["metrics"]["final_count"] == one["metrics"]["expected_count"]
    assert len({one["metrics"]["final_count"] for one in traces}) > 1
    served = stack.served("stateful_counter")
    assert served[("seed_session", 200)] == served[("verify", 200)] == 3
    assert served[("increment_counter", 200)] >= 3
    assert served[("get_counter_value", 200)] == 3
    assert {status for _, status in served} == {200}
    assert stack.served("policy_model")[("v1/chat/completions", 200)] >= 6


def test_tools_that_seed_session_advertises_over_mcp_are_called_in_the_rollouts_session(
    stack: Stack, programs: Path, tmp_path: Path
) -> None:
    traces = evaluate(stack, programs, tmp_path, "mcp_weather")
    assert [one["rewards"]["nemo_gym"]["score"] for one in traces] == [1.0] * 3, traces
    assert [one["metrics"]["tool_call_seen"] for one in traces] == [1.0] * 3
    served = stack.served("mcp_weather")
    assert served[("verify", 200)] == 3
    assert served[("mcp", 200)] > 0
    assert served[("get_weather", 200)] == 0  # over MCP alone


def test_an_environment_that_is_not_there_is_an_error_and_no_reward(
    stack: Stack, programs: Path, tmp_path: Path
) -> None:
    for one in evaluate(stack, programs, tmp_path, "stateful_counter", server="missing"):
        assert (one["rewards"], [error["type"] for error in one["errors"]]) == ({}, ["TaskError"])
