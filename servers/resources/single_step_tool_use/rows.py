"""What a row holds, and what its reply says beside the reward."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from rules import Category

from gym.server import Score, VerifyRequest
from gym.wire.calls import read_arguments
from gym.wire.rows import Tolerant


def _is_object(text: str) -> str:
    if not isinstance(read_arguments(text), dict):
        raise ValueError("the JSON text of an object is needed")
    return text


class ExpectedMessage(Tolerant):
    type: Literal["message"]
    content: str


class ExpectedCall(Tolerant):
    type: Literal["function_call"]
    name: str
    arguments: Annotated[str, AfterValidator(_is_object)]


class ExpectedCalls(Tolerant):
    type: Literal["function_call_batch"]
    calls: list[ExpectedCall] = Field(min_length=1)


class SingleStepTask(VerifyRequest):
    expected_action: Annotated[ExpectedMessage | ExpectedCall | ExpectedCalls, Field(discriminator="type")]


class SingleStepToolUseScore(Score):
    category: Category | None
