"""What a row holds, and what its reply says beside the reward."""

from typing import Any

from pydantic import BaseModel

from gym.server import MultiRewardResponse, Score, VerifyRequest
from gym.wire.rows import Tolerant


class ExpectedCall(Tolerant):
    name: str
    arguments: dict[str, Any] = {}


class MultiRewardTask(VerifyRequest):
    expected_call: ExpectedCall


class Forecast(BaseModel):
    city: str
    weather_description: str


class SingleToolCallMultirewardScore(Score, MultiRewardResponse):
    correctness: float
    schema_valid: float
    format: float
    predicted_calls: list[dict[str, Any]]
