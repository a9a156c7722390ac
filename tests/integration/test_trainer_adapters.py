"""The adapters of SkyRL, rLLM and AReaL before a real stack: whose model is asked, and what comes back of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
import pytest_asyncio

from gym.testing import GymStack
from gym.trainers.areal import GymWorkflow
from gym.trainers.carried_rows import pack_row
from gym.trainers.rllm import GymRuntime
from gym.trainers.skyrl import GymGenerator, row_to_record
from gym.wire.failures import RolloutError
from tests.support.fake_rllm import write_rllm
from tests.support.fake_vllm import FakeVLLM, Said, fake_vllm

pytestmark = pytest.mark.asyncio(loop_scope="module")
ROWS = Path(__file__).parents[2] / "servers" / "resources" / "mcqa" / "data" / "example.jsonl"
KEY = "session-key-0123456789"
ANSWER = Said("Mercury: \\boxed{A}")


@dataclass
class Setup:
    """Where the stack is, the model that it is configured with, and the one that a trainer brings."""

    url: str
    configured: FakeVLLM
    own: FakeVLLM


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def setup() -> AsyncIterator[Setup]:
    async with fake_vllm() as configured, fake_vllm(says=lambda _: ANSWER) as own:
        given = (f"policy_base_url={configured.url}", "policy_api_key=none", "policy_model_name=configured")
        async with GymStack("mcqa", *given, model="vllm_model_for_training", runtime="local") as stack:
            yield Setup(stack.url, configured, own)


@pytest.fixture
def own(setup: Setup) -> FakeVLLM:
    """Nothing was asked of it yet, and it gives token ids."""
    setup.own.asked.clear()
    setup.own.headers.clear()
    setup.own.form = "native"
    return setup.own


def rows() -> list[dict[str, Any]]:
    """The right answers are A and C, so that what the model says is right once."""
    return [orjson.loads(line) for line in ROWS.read_bytes().splitlines()[:2]]


async def test_skyrl_trains_on_the_tokens_that_its_engine_sampled(setup: Setup, own: FakeVLLM) -> None:
    records = [row_to_record(one) for one in rows() for _ in range(2)]
    given = {
        "prompts": [one["prompt"] for one in records],
        "env_extras": [{"row": one["row"]} for one in records],
        "sampling_params": {"temperature": 0.5, "max_tokens": 32, "top_k": -1},
        "trajectory_ids": [SimpleNamespace(instance_id=str(place // 2), repetition_id=place % 2) for place in range(4)],
    }
    found = await GymGenerator(setup.url, endpoint=lambda: own.url, model="policy").generate(given)
    assert found["rewards"] == [1.0, 1.0, 0.0, 0.0]
    asked = {tuple(own.prompt(body)) for body in own.bodies()}
    assert {tuple(one) for one in found["prompt_token_ids"]} == asked
    assert found["response_ids"] == [own.ids(f"{ANSWER.text}<|end|>")] * 4
    assert {(body["temperature"], body["max_tokens"], body["model"]) for body in own.bodies()} == {(0.5, 32, "policy")}
    assert setup.configured.asked == []


async def test_areal_gets_the_reward_of_a_rollout_that_used_its_session(setup: Setup, own: FakeVLLM) -> None:
    workflow = GymWorkflow(setup.url)
    right, wrong = [await workflow.run(pack_row(one), base_url=own.url, api_key=KEY) for one in rows()]
    assert (right, wrong) == (1.0, 0.0)
    assert {one["authorization"] for one in own.headers} == {f"Bearer {KEY}"}
    assert setup.configured.asked == []


async def test_a_proxy_without_token_ids_fails_where_the_stack_insists_on_them(setup: Setup, own: FakeVLLM) -> None:
    own.form = "none"
    with pytest.raises(RolloutError, match="token ids were asked for") as caught:
        await GymWorkflow(setup.url).run(pack_row(rows()[0]), base_url=own.url, api_key=KEY)
    assert caught.value.kind == "model"


async def test_rllm_gets_a_result_for_each_submission(
    setup: Setup, own: FakeVLLM, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rllm(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    gone = own.url.replace("/v1", "/sessions/missing/v1")  # answers 404
    submissions: list[Any] = [
        SimpleNamespace(task=pack_row(row), session_id=f"s{place}", task_id="t", inference_url=url)
        for place, (row, url) in enumerate(zip((*rows(), rows()[0]), (own.url, own.url, gone), strict=True))
    ]
    found = await GymRuntime(setup.url).execute_tasks(submissions)
    assert [(one.finished, one.reward) for one in found] == [(True, 1.0), (True, 0.0), (False, None)]
    assert found[2].raw_result["kind"] == "model"
    assert setup.configured.asked == []
