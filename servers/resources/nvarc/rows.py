"""What a row holds, and what its reply says beside the reward."""

from typing import Any, Literal

from pydantic import Field

from gym.server import Score, VerifyRequest

Mode = Literal["transductive", "inductive"]


class NvarcTask(VerifyRequest):
    train: list[dict[str, Any]] = Field(default_factory=list)
    test_input: list[list[int]] = Field(default_factory=list)
    expected_output: list[list[int]] = Field(min_length=1)
    task_id: str | None = None
    agent_mode: Mode | None = None


class NvarcScore(Score):
    predicted_output: list[list[Any]] | None
    extraction_successful: bool
    exact_match: bool
    agent_mode: Mode
