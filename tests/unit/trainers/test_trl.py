"""The rollout function for TRL against an agent in a process of its own; TRL's side is its arguments alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gym.collect import AttemptOptions
from gym.errors import ConfigError, InfraError, UserError
from gym.trainers.policy_server import PolicyServer
from gym.trainers.trl import env_reward, make_rollout_func, read_prompts
from tests.support.agents import FakeAgent, fake_agent

END = 7
QUICK = AttemptOptions(backoff=0.01, max_attempts=2)


@pytest.fixture(scope="module")
def agent() -> Iterator[FakeAgent]:
    with fake_agent() as one:
        yield one


def make_trainer(**args: Any) -> SimpleNamespace:
    known = {"use_vllm": True, "vllm_mode": "server", "temperature": 0.8, "top_p": 0.9, "max_completion_length": 32}
    return SimpleNamespace(
        args=SimpleNamespace(**(known | args)), processing_class=SimpleNamespace(eos_token_id=END), model=None
    )


def call(prompt: list[int], generation: list[int]) -> dict[str, Any]:
    ids = {"prompt_token_ids": prompt, "generation_token_ids": generation}
    return {"type": "message", **ids, "generation_log_probs": [-0.5] * len(generation)}


def prompt(name: str, *output: dict[str, Any], response: dict[str, Any] | None = None, **fake: Any) -> str:
    extra = {"response": {"output": list(output), **(response or {})}}
    return json.dumps({"responses_create_params": {"input": name}, "name": name, "fake": {"extra": extra, **fake}})


def roll_out(agent: FakeAgent, prompts: list[str]) -> dict[str, list[Any]]:
    return make_rollout_func(agent.url, options=QUICK)(prompts, make_trainer())


def test_each_prompt_gets_one_rollout_in_the_order_of_the_prompts(agent: FakeAgent) -> None:
    slow = prompt("slow", call([1], [2, 3]), odd=True, delay=0.2)
    fast = prompt("fast", call([4, 5], [6]), {"type": "function_call_output"}, call([4, 5, 6, 9], [8]))
    batch = roll_out(agent, [slow, slow, fast, fast])
    assert batch["prompt_ids"] == [[1], [1], [4, 5], [4, 5]]
    assert batch["completion_ids"] == [[2, 3], [2, 3], [6, 9, 8], [6, 9, 8]]
    assert batch["logprobs"] == [[-0.5, -0.5]] * 2 + [[-0.5, 0.0, -0.5]] * 2
    assert batch["env_mask"] == [[1, 1]] * 2 + [[1, 0, 1]] * 2
    assert batch["env_reward"] == [0.0, 1.0, 1.0, 1.0]
    assert [one["name"] for one in batch["env_result"]] == ["slow", "slow", "fast", "fast"]


def test_a_failed_rollout_is_tried_again_and_then_has_no_reward_and_nothing_to_train(agent: FakeAgent) -> None:
    recovers, stays = prompt("recovers", call([1], [2]), fail_times=1), prompt("stays", call([1], [2]), fail_times=-1)
    batch = roll_out(agent, [stays, recovers])
    assert batch["env_reward"] == [None, 1.0]
    assert batch["env_mask"] == [[0], [1]]
    assert (batch["prompt_ids"][0], batch["completion_ids"][0], batch["logprobs"][0]) == ([END], [END], [0.0])
    assert batch["env_result"][0] is None


def test_ids_that_do_not_line_up_are_not_a_reward_either(agent: FakeAgent) -> None:
    crooked = {**call([1], [2, 3]), "generation_log_probs": [-0.5]}
    assert roll_out(agent, [prompt("bad", crooked), prompt("good", call([1], [2]))])["env_reward"] == [None, 1.0]


def test_a_batch_of_which_nothing_came_back_is_an_error_that_says_why(agent: FakeAgent) -> None:
    lost = prompt("lost", fail_times=-1, status=500, body={"error": {"kind": "judge", "message": "no verdict"}})
    with pytest.raises(InfraError, match="not one of 2 rollouts came back.*no verdict"):
        roll_out(agent, [lost, lost])


def test_a_trl_that_counts_no_reward_as_zero_gets_none(
    agent: FakeAgent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = [prompt("lost", call([1], [2]), fail_times=-1), prompt("good", call([1], [2]))]
    installed = tmp_path / "trl.dist-info"
    installed.mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: trl\nVersion: 1.5.2\n")
    with pytest.raises(InfraError, match="1 of 2 rollouts failed, and this TRL counts them as 0"):
        roll_out(agent, prompts)
    assert roll_out(agent, prompts[1:])["env_reward"] == [1.0]
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: trl\nVersion: 1.16.0\n")
    assert roll_out(agent, prompts)["env_reward"] == [None, 1.0]


def test_rows_are_sampled_as_they_are_trained(agent: FakeAgent) -> None:
    row = json.loads(prompt("own", call([1], [2])))
    row["responses_create_params"] |= {"temperature": 0.1, "max_output_tokens": 5}
    batch = roll_out(agent, [prompt("plain", call([1], [2])), json.dumps(row)])
    plain, own = (one["responses_create_params"] for one in batch["env_result"])
    assert plain == {"input": "plain", "temperature": 0.8, "top_p": 0.9, "max_output_tokens": 32}
    assert own == {"input": "own", "temperature": 0.8, "top_p": 0.9, "max_output_tokens": 5}


def test_of_calls_that_do_not_continue_each_other_the_sequence_with_most_is_trained(agent: FakeAgent) -> None:
    batch = roll_out(agent, [prompt("break", call([1], [2]), call([5], [6, 7]), call([9], [8]))])
    assert (batch["prompt_ids"], batch["completion_ids"], batch["env_reward"]) == ([[5]], [[6, 7]], [1.0])


def test_a_prompt_that_left_no_room_keeps_its_reward_and_trains_nothing(agent: FakeAgent) -> None:
    full = {"incomplete_details": {"reason": "max_output_tokens"}}
    batch = roll_out(agent, [prompt("full", response=full, odd=True)])
    assert (batch["env_reward"], batch["env_mask"]) == ([0.0], [[0]])


def test_a_model_that_says_no_ids_is_an_error(agent: FakeAgent) -> None:
    with pytest.raises(UserError, match="no token ids"):
        roll_out(agent, [prompt("none", {"type": "message"})])


def test_what_answers_has_to_be_what_is_trained(agent: FakeAgent) -> None:
    rows = [prompt("good", call([1], [2]))]
    for args in ({"use_vllm": False}, {"vllm_mode": "colocate"}):
        with pytest.raises(UserError, match="nothing says that the stack asks the policy"):
            make_rollout_func(agent.url)(rows, make_trainer(**args))
    server = PolicyServer()
    with pytest.raises(UserError, match="TRL uses vLLM, and policy_server"):
        make_rollout_func(agent.url, policy_server=server)(rows, make_trainer())
    server.close()


def test_the_reward_function_gives_the_environments_own_and_counts_what_has_none() -> None:
    noted: list[tuple[str, float]] = []
    given = [1.0, None, 0.25, None]
    assert env_reward(env_reward=given, log_metric=lambda *one: noted.append(one), completions=["x"] * 4) == given
    assert noted == [("env_failed", 0.5)]


def test_prompts_are_the_rows_of_files(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    row = {"responses_create_params": {"input": "Hi"}, "expected_answer": "A"}
    file.write_text(f"{json.dumps(row)}\n\n{json.dumps(row)}\n")
    assert [json.loads(one["prompt"]) for one in read_prompts(file)] == [row, row]
    file.write_text(f'{json.dumps(row)}\n{{"expected_answer": "A"}}\n')
    with pytest.raises(ConfigError, match=r"rows\.jsonl:2: responses_create_params"):
        read_prompts(file)


def test_large_integers_of_a_row_keep_their_digits_on_the_way(agent: FakeAgent, tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps({**json.loads(prompt("large", call([1], [2]))), "id": 10**29 + 7}) + "\n")
    (one,) = read_prompts(file)
    assert json.loads(one["prompt"])["id"] == 10**29 + 7
    assert roll_out(agent, [one["prompt"]])["env_reward"] == [1.0]
