"""`gym up --strict`: an answer that pays in default mode earns nothing, the stack says so, and rollouts do not mix."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import gym

UP = ("up", "structeval", "--model", "scripted", "--runtime", "local", "--port", "0")
ROW = {
    "responses_create_params": {"input": "Write the pets as YAML."},
    "agent_ref": {"type": "responses_api_agents", "name": "structeval_simple_agent"},
    "task_id": "1",
    "task_name": "Text to YAML",
    "input_type": "Text",
    "output_type": "YAML",
    "raw_output_metric": ["pets[0].name"],
    "rendering": False,
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "rows.jsonl").write_text(json.dumps(ROW) + "\n")
    yield tmp_path
    gym("down", cwd=tmp_path)


def rewards(path: Path) -> list[float]:
    return [json.loads(line)["reward"] for line in path.read_text().splitlines()]


def test_prose_for_yaml_pays_in_default_mode_and_nothing_in_strict(folder: Path) -> None:
    collect = ("rollouts", "rows.jsonl", "-o", "out.jsonl")
    assert gym(*UP, cwd=folder, timeout=180).returncode == 0
    assert gym(*collect, cwd=folder).returncode == 0
    (lenient,) = rewards(folder / "out.jsonl")
    assert lenient > 0

    up = gym(*UP, "--strict", cwd=folder, timeout=180)
    assert up.returncode == 0, up.stderr
    assert json.loads(gym("ps", "--json", cwd=folder).stdout)["strict"] == ["structeval"]
    refused = gym(*collect, cwd=folder)
    assert refused.returncode != 0
    assert "strict: nothing then, structeval now" in refused.stderr

    assert gym(*collect[:-1], "strict.jsonl", cwd=folder).returncode == 0
    assert rewards(folder / "strict.jsonl") == [0.0]
    (stack,) = json.loads((folder / "strict_run.json").read_text())["stacks"]
    assert stack["strict"] == ["structeval"]


def test_a_verifier_of_one_mode_is_audited_in_that(tmp_path: Path) -> None:
    words = ("stateful_counter", "--quick", "--strict", "--only", "bad rows")
    done = gym("audit", *words, cwd=tmp_path, timeout=180)
    assert done.returncode == 0, done.stderr
    assert "stateful_counter has one mode" in done.stderr
    assert "bad rows" in done.stdout
