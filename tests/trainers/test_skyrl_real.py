"""SkyRL's own package around our generator, on the CPU, in an environment of its own: no engine, no worker.

SkyRL wants Python 3.12: `GYM_TEST_PYTHON312` names one, else `python3.12` and pyenv's are looked for. `GYM_TEST_TORCH`
is as in tests/servers/test_vllm_real_ids.py, and `GYM_TEST_SKYRL_PYTHON` names an environment that has everything.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.trainers.skyrl import row_to_record
from tests.support.agents import FakeAgent, fake_agent
from tests.support.python312 import find_python312

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[2]
SKYRL = ("--no-deps", "skyrl==0.4.0")
# What SkyRL's trainer module imports, and what ours does.
NEEDS = """loguru numpy omegaconf hydra-core==1.3.4 ray==2.57.0 torchdata transformers<=5.16.1 tensordict jaxtyping
pybase64 skyrl-gym datasets peft==0.18.1 accelerate cloudpathlib hf_transfer pillow zstandard aiohttp httpx vllm-router
orjson httptools uvloop pydantic pyyaml fastapi uvicorn tensorboard func_timeout debugpy==1.8.0 wandb"""
SECONDS = 3600.0


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    if ready := os.environ.get("GYM_TEST_SKYRL_PYTHON"):
        return ready
    folder = tmp_path_factory.mktemp("skyrl")
    made = str(folder / "bin" / "python")
    install = (made, "-m", "pip", "install", "--quiet")
    steps = ((find_python312(), "-m", "venv", str(folder)), (*install, os.environ.get("GYM_TEST_TORCH", "torch")))
    for argv in (*steps, (*install, *SKYRL), (*install, *NEEDS.split())):
        subprocess.run(argv, check=True, timeout=SECONDS)
    return made


@pytest.fixture
def agent() -> Iterator[FakeAgent]:
    with fake_agent() as one:
        yield one


def row(name: str, *calls: tuple[list[int], list[int]]) -> dict[str, Any]:
    output = [
        {
            "type": "message",
            "prompt_token_ids": prompt,
            "generation_token_ids": generation,
            "generation_log_probs": [-0.5] * len(generation),
        }
        for prompt, generation in calls
    ]
    extra = {"response": {"output": output}}
    return {"responses_create_params": {"input": f"What is {name}?"}, "name": name, "fake": {"extra": extra}}


async def step(python: str, agent: FakeAgent, folder: Path, mode: str, *rows: dict[str, Any]) -> Any:
    records = folder / "records.jsonl"
    records.write_bytes(b"".join(orjson.dumps(row_to_record(one)) + b"\n" for one in rows))
    argv = (python, str(ROOT / "tests" / "support" / "skyrl_step.py"), agent.url, str(records), mode)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HOME": str(folder), "WANDB_MODE": "offline"}
    done = await asyncio.to_thread(
        subprocess.run, argv, env=environment, cwd=folder, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return orjson.loads(done.stdout.splitlines()[-1])


async def test_skyrl_takes_a_batch_with_failures_and_its_advantages_are_those_of_what_succeeded(
    python: str, agent: FakeAgent, tmp_path: Path
) -> None:
    agent.control(seen={"0:0": 1, "0:1": 1, "1:0": 1, "1:1": 0})  # so that the last of the four fails
    one, two = row("one", ([1, 2], [3]), ([1, 2, 3, 7], [4])), row("two", ([1], [2]))
    one["fake"]["odd"] = True
    two["expected"] = 0.25
    two["fake"] |= {"fail_times": 1, "body": {"error": {"kind": "sandbox", "message": "gone", "retryable": True}}}
    found = await step(python, agent, tmp_path, "whole", one, two)
    assert found["rewards"] == [0.0, 1.0, 0.25, 0.25]
    assert found["loss_masks"] == [[1, 0, 1], [1, 0, 1], [1], [0]]
    assert found["stop_reasons"] == ["stop", "stop", "stop", "error"]
    assert (found["metrics"]["gym/failures"], found["metrics"]["gym/failures/sandbox"]) == (1, 1)
    assert found["advantages"] == [-0.5, 0.5, 0.0, 0.0]


async def test_skyrl_takes_the_steps_of_broken_rollouts(python: str, agent: FakeAgent, tmp_path: Path) -> None:
    rows = (row("one", ([1], [2]), ([8, 8], [3])), row("two", ([1], [2])) | {"expected": 0.5})
    found = await step(python, agent, tmp_path, "step_wise", *rows)
    assert found["is_last_step"] == [False, True, False, True, True, True]
    assert found["uids"] == ["0", "0", "0", "0", "1", "1"]
    assert found["rewards"] == [1.0, 1.0, 1.0, 1.0, 0.5, 0.5]
