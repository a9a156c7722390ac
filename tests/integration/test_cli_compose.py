"""The `gym` command over a container engine: the same words, the same files, another runtime."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym.programs import run_program
from tests.support.cli import gym
from tests.support.docker import need_engine

pytestmark = pytest.mark.docker


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    need_engine()
    yield tmp_path
    gym("down", cwd=tmp_path, env=engine())


def test_compose_is_chosen_when_an_engine_answers_and_a_stack_collects_as_everywhere(folder: Path) -> None:
    up = gym("up", "mcqa", "--model", "scripted", "--port", "0", cwd=folder, env=engine(), timeout=300)
    assert up.returncode == 0, up.stderr
    assert "runtime: compose" in up.stderr
    status = json.loads(gym("ps", "--json", cwd=folder, env=engine()).stdout)
    assert status["healthy"]
    assert status["runtime"] == "compose"
    assert f"{status['router']}/s/mcqa" in up.stdout

    listed = json.loads(gym("ls", "--json", cwd=folder.parent, env=engine()).stdout)
    mine = next(one for one in listed if one["folder"] == str(folder))
    assert (mine["stack"], mine["runtime"], mine["state"]) == ("gym", "compose", "healthy")
    assert status["router"].endswith(f":{mine['port']}")
    logs = gym("logs", cwd=folder, env=engine()).stdout.splitlines()
    assert all(" | " in line for line in logs)
    assert {"router", "mcqa-1"} <= {line.partition(" | ")[0].strip() for line in logs}
    assert any("mcqa is ready" in line for line in logs)
    beside = gym(
        "exec", "mcqa", "--", "sh", "-c", "echo $GYM_REPLICA$NEMO_GYM_CONFIG_PATH; exit 7", cwd=folder, env=engine()
    )
    assert (beside.stdout, beside.returncode) == ("mcqa\n", 7)

    done = gym("rollouts", "mcqa", "-o", "out.jsonl", cwd=folder, env=engine())
    assert done.returncode == 0, done.stderr
    assert (folder / "out.jsonl").read_text("utf-8").count("\n") == 5

    other = gym("up", "mcqa", "--model", "scripted", "--runtime", "local", "--port", "0", cwd=folder, env=engine())
    assert other.returncode == 1
    assert "runs on the compose runtime" in other.stderr

    assert gym("down", cwd=folder, env=engine()).returncode == 0
    assert gym("ps", cwd=folder, env=engine()).returncode == 1
    left = run_program(["docker", "ps", "-aq", "--filter", f"label=gym.stack-dir={folder / '.gym' / 'gym'}"])
    assert left == ""


def test_a_model_on_this_machine_is_said_to_have_another_name_inside(folder: Path) -> None:
    url = "http://127.0.0.1:9/v1"
    words = (f"policy_base_url={url}", "policy_api_key=none", "policy_model_name=any", "--port", "0")
    up = gym("up", "mcqa", *words, "--model", "openai", cwd=folder, env=engine(), timeout=300)
    assert up.returncode == 0, up.stderr
    assert f"{url} is on this machine: containers get http://host.docker.internal:9/v1" in up.stderr


def engine() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key.startswith("DOCKER_")}
