"""What a trainer gets of a rollout's tokens."""

from __future__ import annotations

from typing import Any

import pytest

from gym.errors import UserError
from gym.trainers import TokenSequence, read_sequence, read_sequences
from gym.wire.failures import RolloutError


def call(prompt: list[int], generation: list[int], kind: str = "message") -> dict[str, Any]:
    ids = {"prompt_token_ids": prompt, "generation_token_ids": generation}
    return {"type": kind, **ids, "generation_log_probs": [-0.5] * len(generation)}


def rollout(*output: dict[str, Any]) -> dict[str, Any]:
    return {"reward": 1.0, "response": {"output": list(output)}}


def test_what_tools_said_between_two_calls_is_masked() -> None:
    output = {"type": "function_call_output", "output": "sunny"}
    found = read_sequence(rollout(call([1, 2], [3, 4], "function_call"), output, call([1, 2, 3, 4, 9, 9], [5])))
    assert found == TokenSequence([1, 2], [3, 4, 9, 9, 5], [-0.5, -0.5, 0.0, 0.0, -0.5], [1, 1, 0, 0, 1])


@pytest.mark.parametrize("second", [[1, 2, 3, 8, 9], [1, 2], [7, 2, 3, 4, 9]])
def test_a_break_begins_another_sequence(second: list[int]) -> None:
    row = rollout(call([1, 2], [3, 4]), call(second, [5]), call([*second, 5, 6], [7]))
    first, other = read_sequences(row)
    assert (first.prompt_ids, first.completion_ids) == ([1, 2], [3, 4])
    assert (other.prompt_ids, other.completion_ids, other.mask) == (second, [5, 6, 7], [1, 0, 1])
    with pytest.raises(UserError, match="the rollout is 2 sequences"):
        read_sequence(row)


def test_the_row_is_left_as_it_was() -> None:
    row = rollout(call([1], [2]), call([1, 2], [3]))
    read_sequences(row)
    assert row == rollout(call([1], [2]), call([1, 2], [3]))


@pytest.mark.parametrize("row", [{}, {"response": None}, rollout(), rollout({"type": "message", "content": "Hi"})])
def test_a_rollout_without_token_ids_is_an_error_that_says_how_to_get_them(row: dict[str, Any]) -> None:
    assert read_sequences(row) == []
    with pytest.raises(UserError, match="no token ids"):
        read_sequence(row)


@pytest.mark.parametrize(
    "change",
    [
        {"generation_log_probs": [-0.5, -0.5]},
        {"generation_log_probs": None},
        {"generation_log_probs": ["NaN"]},
        {"prompt_token_ids": None},
        {"prompt_token_ids": []},
        {"prompt_token_ids": [True]},
        {"generation_token_ids": [-1]},
    ],
)
def test_ids_that_do_not_line_up_are_a_failure_of_the_model(change: dict[str, Any]) -> None:
    with pytest.raises(RolloutError) as caught:
        read_sequences(rollout(call([1], [2]) | change))
    assert caught.value.kind == "model"
