"""OpenPipe ART's unmodified package gathers groups from a stack and makes training sequences of them, on the CPU.

`GYM_TEST_ART_PYTHON` names an interpreter that has openpipe-art, torch, transformers and what this package needs.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.client import AsyncStack
from gym.trainers import read_sequence
from gym.wire.items import message
from tests.support.cli import gym
from tests.support.fake_peer import failed, fake_peer, verified
from tests.support.fake_vllm import Said, fake_vllm
from tests.support.foreign_env import ROOT, foreign_environ, foreign_python

pytestmark = pytest.mark.long
PACKAGE = "openpipe-art==0.5.23"
# Of what the package asks for: what `import art` needs. The rest is for its backends and for logging.
NEEDS = "aiohttp anthropic nest-asyncio numpy openai<3 orjson polars pydantic python-dotenv requests setproctitle tblib"
TORCH = (os.environ.get("GYM_TEST_TORCH", "torch"), "transformers")
PROGRAM = ROOT / "tests" / "support" / "art_trainer.py"
TOKENS = "policy_model.responses_api_models.scripted.return_token_id_information=true"
SERVED = """
served_model:
  responses_api_models:
    vllm_model: {entrypoint: app.py, base_url: [], model: unused, return_token_id_information: true}
served_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: simple_weather}
      model_server: {type: responses_api_models, name: served_model}
"""
KEY, MODEL = "sk-of-arts-endpoint", "m@3"
NAMES = ("simple_weather", "mcqa")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    package, needs = ("--no-deps", PACKAGE), (*NEEDS.split(), "tqdm", "typer")
    return foreign_python(tmp_path_factory.mktemp("art"), "GYM_TEST_ART_PYTHON", package, needs, TORCH)


def rows() -> list[dict[str, Any]]:
    """Of one question with two opinions of what is right, so that rewards differ; and one with a tool."""
    data = [ROOT / "servers" / "resources" / name / "data" / "example.jsonl" for name in NAMES]
    weather, question = (orjson.loads(path.read_bytes().splitlines()[0]) for path in data)
    return [weather, *({**question, "expected_answer": letter} for letter in "ABCD")]


def parted() -> dict[str, Any]:
    """Two calls, of which the second does not continue the first."""
    calls = [([1, 2], [3]), ([7, 8], [9])]
    output = [
        message("Hi") | {"prompt_token_ids": prompt, "generation_token_ids": ids, "generation_log_probs": [-0.5]}
        for prompt, ids in calls
    ]
    return verified({"responses_create_params": {"input": "Hi"}}, *output)


@asynccontextmanager
async def gym_stack(folder: Path) -> AsyncIterator[str]:
    (folder / "mine.yaml").write_text(SERVED)
    try:
        words = ("up", *NAMES, "-c", "mine.yaml", "--model", "scripted", "--runtime", "local", "--port", "0", TOKENS)
        up = await asyncio.to_thread(gym, *words, cwd=folder, timeout=300)
        assert up.returncode == 0, up.stderr
        yield str(orjson.loads((await asyncio.to_thread(gym, "ps", "--json", cwd=folder)).stdout)["router"])
    finally:
        await asyncio.to_thread(gym, "down", cwd=folder)


async def test_groups_from_a_stack_are_what_art_trains_on_and_failures_are_its_exceptions(
    python: str, tmp_path: Path
) -> None:
    given = rows()
    row = {name: value for name, value in given[0].items() if name != "agent_ref"}
    async with (
        fake_peer(lambda *_: (503, failed("sandbox", "its sandbox is gone"))) as broken,
        fake_vllm(says=lambda _: Said("It is cold.")) as model,
        gym_stack(tmp_path) as stack,
    ):
        served = {"url": model.url, "key": KEY, "model": MODEL, "agent": "served_agent", "row": row}
        job = {"stack": stack, "broken": broken.url, "rows": given, "served": served, "parted": parted()}
        (tmp_path / "job.json").write_bytes(orjson.dumps(job))
        words = (python, str(PROGRAM), str(tmp_path / "job.json"), str(tmp_path / "found.json"))
        trainer = await asyncio.create_subprocess_exec(*words, env=foreign_environ(tmp_path), cwd=tmp_path)
        assert await trainer.wait() == 0
        assert [
            (body["model"], one["authorization"]) for body, one in zip(model.bodies(), model.headers, strict=True)
        ] == [(MODEL, f"Bearer {KEY}")]
        async with AsyncStack(stack) as client:
            expected = [read_sequence(await client.run(row)) for row in given]
            own = {"policy_base_url": model.url, "policy_model_name": MODEL}
            expected.append(read_sequence(await client.run({**row, **own}, agent="served_agent")))
    found = orjson.loads((tmp_path / "found.json").read_bytes())
    check_groups(found, len(given))
    assert [one["token_ids"] for one in found["parted"]] == [[1, 2, 3], [7, 8, 9]]
    for one in found["trained"]:
        same = [two for two in expected if two.prompt_ids + two.completion_ids == one["token_ids"]]
        assert same, "ART made other tokens than the policy did"
        before = len(same[0].prompt_ids)
        assert one["mask"] == [0] * before + same[0].mask
        log_probs = [value for mask, value in zip(one["mask"], one["log_probs"], strict=True) if mask]
        assert log_probs == [value for mask, value in zip(same[0].mask, same[0].log_probs, strict=True) if mask]


def check_groups(found: dict[str, Any], count: int) -> None:
    old, new, *streamed, served = found["groups"]
    for group in (old, new):
        assert len(group["rewards"]) == count
        assert sorted(set(group["rewards"])) == [0.0, 1.0]  # the wrong answers of the policy, and the right ones
        assert len(group["exceptions"]) == count
        assert all("its sandbox is gone" in one for one in group["exceptions"])
        assert ["system", "user", "assistant", "tool", "assistant"] in group["messages"]
    assert "its sandbox is gone" in found["raised"]
    assert [len(group["rewards"]) for group in streamed] == [2] * count
    assert len(served["rewards"]) == 1
    assert all(group["same"] for group in found["groups"])
    assert all(one["completion_tokens"] > 0 for group in found["groups"] for one in group["metrics"])
    assert len(found["trained"]) == sum(len(group["rewards"]) for group in found["groups"])
    assert {one["advantage"] > 0 for one in found["trained"]} == {True, False}
