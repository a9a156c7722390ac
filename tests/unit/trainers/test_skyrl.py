"""A batch of SkyRL's against an agent in a process of its own: order, tokens, sampling, breaks and failures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from gym.collect import AttemptOptions
from gym.errors import UserError
from gym.trainers.skyrl import GymGenerator, row_to_record
from gym.wire.failures import RolloutError
from tests.support.agents import FakeAgent, fake_agent

ONCE = AttemptOptions(max_attempts=1, backoff=0.01)


@dataclass(frozen=True)
class TrajectoryID:
    """SkyRL's has these two fields."""

    instance_id: str
    repetition_id: int


@pytest.fixture(scope="module")
def agent() -> Iterator[FakeAgent]:
    with fake_agent() as one:
        yield one


def call(prompt: list[int], generation: list[int]) -> dict[str, Any]:
    ids = {"prompt_token_ids": prompt, "generation_token_ids": generation}
    return {"type": "message", **ids, "generation_log_probs": [-0.5] * len(generation)}


def row(reward: float = 1.0, *calls: dict[str, Any], **fake: Any) -> dict[str, Any]:
    output = list(calls or (call([1, 2], [3]),))
    extra = {"reward": reward, "response": {"output": output}}
    return {"responses_create_params": {"input": "What?"}, "fake": {"extra": extra, **fake}}


def batch(*rows: dict[str, Any], group: int = 1, **sampling: Any) -> dict[str, Any]:
    records = [row_to_record(one) for one in rows]
    return {
        "prompts": [one["prompt"] for one in records],
        "env_classes": ["gym"] * len(rows),
        "env_extras": [{"row": one["row"]} for one in records],
        "sampling_params": sampling,
        "trajectory_ids": [TrajectoryID(str(place // group), place % group) for place in range(len(rows))],
        "batch_metadata": None,
    }


def test_a_record_has_the_prompt_for_skyrl_and_the_row_as_text() -> None:
    talk = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
    ]
    given = {"responses_create_params": {"input": talk}, "answer": {"x": None}}
    record = row_to_record(given)
    assert record["prompt"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    assert orjson.loads(record["row"]) == given


async def test_the_output_is_in_the_order_of_the_batch_whatever_ends_first(agent: FakeAgent) -> None:
    rows = [row(place / 4, call([place + 1], [place + 5, 9]), delay=0.3 - place / 10) for place in range(4)]
    found = await GymGenerator(agent.url).generate(batch(*rows))
    assert found["rewards"] == [0.0, 0.25, 0.5, 0.75]
    assert found["prompt_token_ids"] == [[1], [2], [3], [4]]
    assert found["response_ids"] == [[5, 9], [6, 9], [7, 9], [8, 9]]
    assert found["loss_masks"] == [[1, 1]] * 4
    assert found["rollout_logprobs"] == [[-0.5, -0.5]] * 4
    assert [one.instance_id for one in found["trajectory_ids"]] == ["0", "1", "2", "3"]
    assert (found["stop_reasons"], found["is_last_step"]) == (["stop"] * 4, None)


async def test_what_a_tool_said_is_masked_and_an_answer_that_was_cut_off_says_so(agent: FakeAgent) -> None:
    tools, cut = row(1.0, call([1], [2]), call([1, 2, 7, 7], [3])), row()
    cut["fake"]["extra"]["response"]["incomplete_details"] = {"reason": "max_output_tokens"}
    found = await GymGenerator(agent.url).generate(batch(tools, cut))
    assert (found["response_ids"][0], found["loss_masks"][0]) == ([2, 7, 7, 3], [1, 0, 0, 1])
    assert found["stop_reasons"] == ["stop", "length"]


async def test_a_row_takes_the_engine_and_the_sampling_of_skyrl_along() -> None:
    sampling: dict[str, Any] = {
        "temperature": 0.7,
        "top_p": 0.9,
        "max_tokens": 64,
        "top_k": -1,
        "min_p": 0.0,
        "stop": None,
        "logprobs": 1,
    }
    with fake_agent() as agent:
        generator = GymGenerator(agent.url, endpoint=lambda: "http://engine:8000/v1", model="policy")
        rows = generator._make_rows(batch(row(), **sampling))
    assert rows[0]["policy_base_url"] == "http://engine:8000/v1"
    assert rows[0]["policy_model_name"] == "policy"
    asked = {"input": "What?", "temperature": 0.7, "top_p": 0.9, "max_output_tokens": 64}
    assert rows[0]["responses_create_params"] == asked


@pytest.mark.parametrize("sampling", [{"top_k": 20}, {"min_p": 0.1}, {"stop": ["</s>"]}, {"presence_penalty": 1.0}])
async def test_sampling_that_a_row_cannot_carry_is_refused(agent: FakeAgent, sampling: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=f"sampling_params.{next(iter(sampling))} is"):
        await GymGenerator(agent.url).generate(batch(row(), **sampling))


async def test_step_wise_each_part_of_a_broken_rollout_is_a_step_of_one_trajectory(agent: FakeAgent) -> None:
    broken = row(0.5, call([1], [2]), call([8, 8], [3]))
    given = batch(broken, row(1.0), group=2)
    found = await GymGenerator(agent.url, step_wise=True).generate(given)
    assert found["prompt_token_ids"] == [[1], [8, 8], [1, 2]]
    assert found["is_last_step"] == [False, True, True]
    assert [one.repetition_id for one in found["trajectory_ids"]] == [0, 0, 1]
    assert found["rewards"] == [0.5, 0.5, 1.0]
    whole = await GymGenerator(agent.url).generate(given)
    assert whole["prompt_token_ids"] == [[8, 8], [1, 2]]
    assert whole["rollout_metrics"]["gym/rollouts_with_breaks"] == 1


@pytest.mark.parametrize("step_wise", [False, True])
async def test_a_failure_is_masked_and_gets_the_mean_of_its_group_never_0(agent: FakeAgent, step_wise: bool) -> None:
    lost = {
        "fail_times": -1,
        "status": 500,
        "body": {"error": {"kind": "sandbox", "message": "gone", "retryable": True}},
    }
    rows = [row(1.0), row(0.5), row(9.0, **lost), row(3.0), row(9.0, **lost), row(9.0, **lost)]
    generator = GymGenerator(agent.url, step_wise=step_wise, options=ONCE)
    found = await generator.generate(batch(*rows[:3], row(0.25), *rows[4:], group=3))
    assert found["rewards"] == [1.0, 0.5, 0.75, 0.25, 0.25, 0.25]
    assert [any(mask) for mask in found["loss_masks"]] == [True, True, False, True, False, False]
    assert found["stop_reasons"] == ["stop", "stop", "error", "stop", "error", "error"]
    assert found["rollout_metrics"]["gym/failures/sandbox"] == found["rollout_metrics"]["gym/failures"] == 3
    empty = await generator.generate(batch(row(1.0), row(0.5), *rows[4:], group=2))
    assert empty["rewards"] == [1.0, 0.5, 0.75, 0.75]


async def test_a_failure_is_tried_again_before_it_is_one(agent: FakeAgent) -> None:
    options = AttemptOptions(max_attempts=2, backoff=0.01)
    with fake_agent() as fresh:
        found = await GymGenerator(fresh.url, options=options).generate(batch(row(0.5, fail_times=1)))
    assert (found["rewards"], found["rollout_metrics"]["gym/failures"]) == ([0.5], 0)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"fail_times": -1, "body": {"error": {"kind": "judge", "message": "no verdict", "retryable": True}}}, "judge"),
        ({"raw": '{"reward": NaN}'}, "resources"),
        ({"raw": '{"reward": 0.0, "_ng_no_persist": true}'}, "agent"),
    ],
)
async def test_a_batch_in_which_all_failed_is_an_error(agent: FakeAgent, fault: dict[str, Any], kind: str) -> None:
    with pytest.raises(RolloutError) as caught:
        await GymGenerator(agent.url, options=ONCE).generate(batch(row(1.0, **fault), row(1.0, **fault)))
    assert caught.value.kind == kind


async def test_ids_that_do_not_line_up_are_a_failure_of_their_rollout_alone(agent: FakeAgent) -> None:
    bad = row(0.0, call([1], [2]) | {"generation_log_probs": [-0.5, -0.5]})
    found = await GymGenerator(agent.url).generate(batch(bad, row(1.0), group=2))
    assert (found["rewards"], found["loss_masks"]) == ([1.0, 1.0], [[0], [1]])
    assert found["rollout_metrics"]["gym/failures/model"] == 1


async def test_a_rollout_without_tokens_keeps_its_reward_and_a_batch_without_any_is_an_error(agent: FakeAgent) -> None:
    silent = row(0.0)
    silent["fake"]["extra"]["response"]["output"] = []
    found = await GymGenerator(agent.url).generate(batch(silent, row(1.0), group=2))
    assert (found["rewards"], found["loss_masks"]) == ([0.0, 1.0], [[0], [1]])
    assert found["rollout_metrics"]["gym/rollouts_without_tokens"] == 1
    with pytest.raises(UserError, match="no rollout of the batch holds token ids"):
        await GymGenerator(agent.url).generate(batch(silent, silent))
