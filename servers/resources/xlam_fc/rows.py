"""What a row holds, and what its reply says beside the reward."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from gym.server import Score, VerifyRequest
from gym.wire.calls import read_arguments
from gym.wire.rows import Tolerant


def _is_object(arguments: dict[str, Any] | str) -> dict[str, Any] | str:
    """Of an expected call: without arguments that can be read, any call of the function would be right."""
    if not isinstance(read_arguments(arguments), dict):
        raise ValueError("an object is needed, or its JSON text")
    return arguments


class ExpectedCall(Tolerant):
    name: str
    arguments: Annotated[dict[str, Any] | str, AfterValidator(_is_object)] = Field(default_factory=dict)


class XlamFcTask(VerifyRequest):
    expected_answers: list[ExpectedCall]


class XlamFcScore(Score):
    num_expected: int
    num_predicted: int
    num_correct: int
    predicted_calls: list[dict[str, Any]]
