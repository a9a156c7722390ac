"""One stack, and libraries that cannot be in one environment: two majors, two releases, two Pythons."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import gym

SERVER = '''"""Says what it runs with, and holds an answer to it by the library itself."""

import sys
from importlib.metadata import version

from math_verify import parse, verify

from gym.server import ResourcesServer, Score, VerifyRequest


class Task(VerifyRequest):
    expected: str


class Checked(ResourcesServer[None]):
    reverify_mode = "stateless"

    async def verify(self, rollout: Task) -> Score:
        right = verify(parse(rollout.expected), parse(rollout.last_text))
        found = {name: version(name) for name in ("mcp", "math-verify")}
        return Score(reward=float(right), python=f"{sys.version_info[0]}.{sys.version_info[1]}", **found)


app = Checked.app()
'''
CONFIG = """
{name}:
  resources_servers:
    {name}:
      entrypoint: app.py
      domain: math
      python_version: "{python}"
      datasets:
        - {{name: example, type: example, jsonl_fpath: {name}/data/example.jsonl}}
"""
KINDS = {
    "older": ("3.11", "mcp>=1.26,<2\nmath-verify[antlr4_13_2]==0.7.0\n"),
    "newer": ("3.13", "mcp>=2,<3\nmath-verify[antlr4_13_2]==0.8.0\n"),
}
# The scripted policy repeats nothing of the question: what is expected stands in its only words.
ROW = {"responses_create_params": {"input": [{"role": "user", "content": "What is 1/2?"}]}, "expected": "$1/2$"}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    for name, (python, requirements) in KINDS.items():
        here = tmp_path / name
        for inner in ("configs", "data"):
            (here / inner).mkdir(parents=True)
        (here / "app.py").write_text(SERVER, "utf-8")
        (here / "requirements.txt").write_text(requirements, "utf-8")
        (here / "configs" / f"{name}.yaml").write_text(CONFIG.format(name=name, python=python), "utf-8")
        row = {**ROW, "agent_ref": {"type": "responses_api_agents", "name": f"{name}_simple_agent"}}
        (here / "data" / "example.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    (tmp_path / "answers.jsonl").write_text(
        json.dumps({"input": ROW["responses_create_params"]["input"], "turns": [[ANSWER]]}) + "\n"  # type: ignore[index]
    )
    yield tmp_path
    gym("down", cwd=tmp_path)


ANSWER = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It is $\\frac{1}{2}$."}]}


@pytest.mark.long
def test_two_majors_two_releases_and_two_pythons_in_one_stack(folder: Path) -> None:
    answers = f"++policy_model.responses_api_models.scripted.answers={folder / 'answers.jsonl'}"
    up = gym("up", *KINDS, answers, "--model", "scripted", "--runtime", "local", "--port", "0", cwd=folder, timeout=900)
    assert up.returncode == 0, up.stderr
    done = gym("rollouts", *KINDS, "-o", "out.jsonl", cwd=folder)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in (folder / "out.jsonl").read_text("utf-8").splitlines()]
    by_python = {one["python"]: one for one in found}
    assert set(by_python) == {"3.11", "3.13"}
    assert [one["reward"] for one in found] == [1.0, 1.0]
    assert by_python["3.11"]["mcp"].startswith("1.")
    assert by_python["3.13"]["mcp"].startswith("2.")
    assert (by_python["3.11"]["math-verify"], by_python["3.13"]["math-verify"]) == ("0.7.0", "0.8.0")
