"""Replies of a provider that has failed, with status 200: a failure, and never an empty answer that is worth 0."""

from __future__ import annotations

from typing import Any

import pytest

from gym.wire.chat import first_choice
from gym.wire.failures import RolloutError

MESSAGE = {"role": "assistant", "content": "half an ans"}


@pytest.mark.parametrize(
    "failed",
    [
        {"choices": [{"message": MESSAGE, "finish_reason": "error", "error": {"code": 502}}]},
        {"choices": [{"message": MESSAGE, "finish_reason": "error"}]},
        {"choices": [{"message": MESSAGE, "finish_reason": "abort"}]},
        {"choices": [{"message": {"content": ""}, "finish_reason": "stop"}], "error": {"code": 502}},
    ],
)
def test_a_completion_that_failed_is_a_failure_of_the_model(failed: dict[str, Any]) -> None:
    with pytest.raises(RolloutError, match="is not an answer") as caught:
        first_choice(failed)
    assert (caught.value.kind, caught.value.retryable) == ("model", True)


@pytest.mark.parametrize("end", ["stop", "length", "tool_calls", "content_filter", None])
def test_how_an_answer_ended_otherwise_is_its_own_matter(end: str | None) -> None:
    choice = {"message": MESSAGE, "finish_reason": end}
    assert first_choice({"choices": [choice], "error": None}) == choice
