"""The package `openrlhf`, unmodified, as far as it goes without a GPU: agents, remote rewards, experiences.

Its wheels have no Python after 3.12: `GYM_TEST_PYTHON312` names one, else `python3.12` and pyenv's are looked for.
`GYM_TEST_TORCH` names torch for pip where its usual wheel is too large: GYM_TEST_TORCH=torch==2.13.0+cpu.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import gym
from tests.support.python312 import find_python312

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "support" / "openrlhf_program.py"
SECONDS = 1800.0
NEEDS = ("transformers", "aiohttp", "sympy", "pylatexenc", "packaging", "numpy", "tqdm")
OURS = ("fastapi", "uvicorn", "uvloop", "httptools", "pydantic", "orjson", "pyyaml", "httpx")
AGENT = """
from gym.trainers.openrlhf import make_executor
AgentExecutor = make_executor("{url}")
"""
UP = ("-c", "responses_api_models/vllm_model/configs/vllm_model_for_training.yaml", "--runtime", "local", "--port", "0")
POLICY = ("policy_base_url=http://127.0.0.1:9/v1", "policy_api_key=none", "policy_model_name=policy")
Json = dict[str, Any]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("openrlhf")
    python = os.environ.get("GYM_TEST_OPENRLHF_PYTHON") or str(folder / "bin" / "python")
    if not Path(python).exists():
        pip = (python, "-m", "pip", "install", "--quiet")
        torch = os.environ.get("GYM_TEST_TORCH", "torch")
        make = (find_python312(), "-m", "venv", str(folder))
        for argv in (make, (*pip, torch, *NEEDS, *OURS), (*pip, "--no-deps", "openrlhf==0.11.2")):
            subprocess.run(argv, check=True, timeout=SECONDS)
    return python


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("stack")
    try:
        up = gym("up", "multi_turn", "mcqa", "stateful_counter", *UP, *POLICY, cwd=folder, timeout=300)
        assert up.returncode == 0, up.stderr
        yield json.loads(gym("ps", "--json", cwd=folder).stdout)["router"]
    finally:
        gym("down", cwd=folder)


def run(python: str, order: Json) -> list[Json]:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        (python, str(PROGRAM)), input=json.dumps(order), env=env, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr[-5000:]
    found: list[Json] = json.loads(done.stdout)
    return found


def row(agent: str, text: str, **fields: Any) -> str:
    asked = {"responses_create_params": {"input": [{"role": "user", "content": text}]}}
    return json.dumps({**asked, "agent_ref": {"type": "responses_api_agents", "name": agent}, **fields})


def test_episodes_become_experiences_with_the_engines_own_log_probs(stack: str, python: str, tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(AGENT.format(url=stack))
    label = row("multi_turn_gymnasium_agent", "Say a.", follow_ups=["And b?", "And c?"], expected_answer="e")
    found = run(python, {"agent": str(agent), "prompts": [["Say a.", label]], "samples": 4, "max_length": 2000})
    assert len(found) == 4
    for one in found:
        (mask,), (log_probs,), (reward,) = one["action_mask"], one["rollout_log_probs"], one["rewards"]
        assert len(one["spoken"]) == 3  # three turns in one sequence
        assert all(re.fullmatch(r"[a-z]*<\|end\|>", text) for text in one["spoken"])
        assert reward == float("e" in one["spoken"][-1])  # what the environment rewards
        drawn = [
            [chance for _, chance in pairs]
            for kept, pairs in groupby(zip(mask, log_probs, strict=True), key=first)
            if kept
        ]
        assert len(drawn) == 3
        for sampled, own in zip(drawn, one["own_log_probs"], strict=True):
            assert sampled == pytest.approx(own, abs=1e-4)
        assert one["truncated"] == [False]
    assert len({str(one["sequences"]) for one in found}) == 4


def first(pair: tuple[Any, Any]) -> Any:
    return pair[0]


def test_tools_that_the_engine_calls_act_in_the_episodes_session(stack: str, python: str, tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(AGENT.format(url=stack))
    rows = ROOT / "servers" / "resources" / "stateful_counter" / "data" / "example.jsonl"
    label = rows.read_text().splitlines()[0]  # from 3 to 6
    words = [f'<tool_call>{{"name": "increment_counter", "arguments": {{"count": {n}}}}}</tool_call>' for n in (1, 2)]
    order = {"agent": str(agent), "prompts": [["Count.", label]], "samples": 1, "max_length": 4000}
    (one,) = run(python, {**order, "words": [*words, "It is 6."]})
    assert (one["rewards"], one["spoken"]) == ([1.0], [f"{text}<|end|>" for text in (*words, "It is 6.")])
    (one,) = run(python, {**order, "words": [words[0], "It is 6."]})
    assert (one["rewards"], len(one["spoken"])) == ([0.0], 2)


def test_an_episode_that_outgrows_the_trainers_length_is_cut_there(stack: str, python: str, tmp_path: Path) -> None:
    agent = tmp_path / "agent.py"
    agent.write_text(AGENT.format(url=stack))
    label = row("multi_turn_gymnasium_agent", "Say a.", follow_ups=["b?"] * 9, expected_answer="e")
    found = run(python, {"agent": str(agent), "prompts": [["Say a.", label]], "samples": 3, "max_length": 60})
    for one in found:
        (ids,) = one["sequences"]
        assert len(ids) <= 60
        assert one["truncated"] == [True]
        assert one["rewards"] in ([0.0], [1.0])


@contextmanager
def rewards(stack: str, environment: str) -> Iterator[str]:
    argv = (sys.executable, "-m", "gym.trainers.openrlhf_reward", stack, environment, "--port", "0")
    with subprocess.Popen(argv, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if match := re.search(r"running on (http://\S+)", line):
                    yield f"{match[1]}/get_reward"
                    break
        finally:
            process.terminate()


def test_a_text_is_rewarded_by_an_environment_and_what_failed_has_no_reward(stack: str, python: str) -> None:
    options = {"options": [{"A": "Mercury"}, {"B": "Mars"}], "expected_answer": "A"}
    label = row("mcqa_simple_agent", "Which?", **options, grading_mode="strict_single_letter_boxed")
    words = {"prompts": [["Which?", label]], "samples": 2, "max_length": 200}
    words["words"] = ["It is \\boxed{A}", "It is \\boxed{B}"]
    with rewards(stack, "mcqa") as url:
        found = run(python, {**words, "remote_url": url})
    assert [one["spoken"] for one in found] == [["It is \\boxed{A}<|end|>"], ["It is \\boxed{B}<|end|>"]]
    assert [one["rewards"] for one in found] == [[[1.0]], [[0.0]]]
    with rewards(stack, "missing") as url:
        found = run(python, {**words, "remote_url": url})
    assert [one["rewards"] for one in found] == [None, None]
