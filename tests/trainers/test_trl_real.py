"""TRL as it is published, in an environment of its own: the example learns, and what failed is never a reward of 0.

`GYM_TEST_TORCH` names torch for pip where its usual wheel is too large: GYM_TEST_TORCH=torch==2.13.0+cpu.
`GYM_TEST_TRL_PYTHON` is a Python that has TRL and this project already.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.agents import fake_agent
from tests.support.cli import gym

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[2]
ROWS = ROOT / "servers" / "resources" / "mcqa" / "data" / "example.jsonl"
MODEL = ("--model", "vllm_model_for_training", "policy_base_url=[]", "policy_api_key=none", "policy_model_name=policy")
SECONDS = 3000.0
NAMES = ("format_verification", "graphwalks")  # without tools, which a model in the trainer's process knows none of
LISTS = """
{name}:
  resources_servers:
    {name}: {{entrypoint: app.py}}
{name}_simple_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {{type: resources_servers, name: {name}}}
      model_server: {{type: responses_api_models, name: policy_model}}
      datasets: [{{name: made, type: train, license: Apache 2.0, jsonl_fpath: {name}.jsonl}}]
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    if given := os.environ.get("GYM_TEST_TRL_PYTHON"):
        return given
    folder = tmp_path_factory.mktemp("trl")
    found = str(folder / "bin" / "python")
    wanted = (os.environ.get("GYM_TEST_TORCH", "torch"), "trl>=1.16", "-e", str(ROOT))
    for argv in ((sys.executable, "-m", "venv", str(folder)), (found, "-m", "pip", "install", "--quiet", *wanted)):
        subprocess.run(argv, check=True, timeout=SECONDS)
    return found


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[str]:
    try:
        up = gym("up", "mcqa", *MODEL, "--runtime", "local", "--port", "0", cwd=tmp_path, timeout=180)
        assert up.returncode == 0, up.stderr
        yield json.loads(gym("ps", "--json", cwd=tmp_path).stdout)["router"]
    finally:
        gym("down", cwd=tmp_path)


def run(python: str, folder: Path, program: str, *words: str) -> str:
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    argv = (python, str(ROOT / program), *words)
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_mean_reward_of_the_example_rises(python: str, stack: str, tmp_path: Path) -> None:
    output = run(python, tmp_path, "examples/train_trl.py", stack, str(ROWS))
    rewards = [float(one) for one in re.findall(r"^step \d+: mean reward (\S+)$", output, re.MULTILINE)]
    assert len(rewards) == 60
    first, last = sum(rewards[:10]) / 10, sum(rewards[-10:]) / 10
    assert last > first + 0.4, output
    shown = re.search(r"^first ten steps: (\S+), last ten: (\S+)$", output, re.MULTILINE)
    assert shown, output
    assert [float(one) for one in shown.groups()] == pytest.approx([first, last], abs=0.002), output


def test_a_step_is_the_same_with_and_without_the_rollouts_that_failed(python: str, tmp_path: Path) -> None:
    fake = {"odd": True, "extra": said([5, 6]), "extra_odd": said([6, 4])}
    good = {"responses_create_params": {}, "name": "good", "fake": fake}
    lost = {"responses_create_params": {}, "name": "lost", "fake": {"fail_times": -1}}
    alone, beside = (step(python, tmp_path, rows) for rows in ([good], [good, lost]))
    assert (alone["reward"], alone["env_failed"]) == (0.5, 0.0)
    assert (beside["reward"], beside["env_failed"]) == (0.5, 0.5)
    assert math.isfinite(beside["loss"])
    assert min(alone["norm"], beside["norm"]) > 1e-3
    assert sum(one * other for one, other in zip(alone["direction"], beside["direction"], strict=True)) > 0.9999


def test_the_first_step_is_taken_on_prepared_rows_of_two_environments(python: str, tmp_path: Path) -> None:
    configs = [word for name in NAMES for word in ("-c", f"{name}.yaml")]
    for name in NAMES:
        (tmp_path / f"{name}.yaml").write_text(LISTS.format(name=name))
        type_(tmp_path, "data", "grow", name, "--rows", "2", "--seed", "7", "--split", "train", "-o", f"{name}.jsonl")
    type_(tmp_path, "data", "prepare", *configs, "-o", "mixed", "--mode", "train_preparation", "--seed", "3")
    try:
        type_(tmp_path, "up", *configs, *MODEL, "--runtime", "local", "--port", "0")
        url = json.loads(gym("ps", "--json", cwd=tmp_path).stdout)["router"]
        output = run(python, tmp_path, "tests/support/trl_checks.py", "step", url, "mixed/train.jsonl", "8192")
    finally:
        gym("down", cwd=tmp_path)
    found = json.loads(output.splitlines()[-1])
    assert found["env_failed"] == 0.0
    assert 0.0 <= found["reward"] <= 1.0
    assert math.isfinite(found["loss"])


def type_(folder: Path, *words: str) -> None:
    done = gym(*words, cwd=folder, timeout=300)
    assert done.returncode == 0, done.stderr


def said(ids: list[int]) -> dict[str, Any]:
    tokens = {"prompt_token_ids": [3, 4], "generation_token_ids": ids, "generation_log_probs": [-1.0] * len(ids)}
    return {"response": {"output": [{"type": "message", **tokens}]}}


def step(python: str, folder: Path, rows: list[dict[str, Any]]) -> dict[str, Any]:
    file = folder / "rows.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    with fake_agent() as agent:
        output = run(python, folder, "tests/support/trl_checks.py", "step", agent.url, str(file))
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found


def test_the_door_says_the_log_probs_that_the_model_has_for_its_tokens(python: str, tmp_path: Path) -> None:
    found = json.loads(run(python, tmp_path, "tests/support/trl_checks.py", "policy_server"))
    assert (found["replies"], len(found["lengths"]), found["training"]) == (16, 4, True)
    assert found["worst"] < 1e-4
