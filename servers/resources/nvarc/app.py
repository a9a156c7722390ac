"""ARC puzzles in two ways: the policy gives the output grid, or the Python function that makes it from the input."""

import asyncio
from typing import Any, Literal

from boards import Board, as_board, read_board, read_code
from candidate import run_candidate
from pydantic import Field

from gym.server import ResourcesConfig, ResourcesServer, VerifyRequest
from gym.server.config import Settings

Mode = Literal["transductive", "inductive"]


class NvarcConfig(ResourcesConfig):
    agent_mode: Mode = "transductive"  # for rows that do not say
    python_timeout_seconds: int = Field(30, ge=1, le=600)  # of CPU time
    python_max_concurrency: int = Field(32, ge=1)
    strict: bool = False


class NvarcTask(VerifyRequest):
    train: list[dict[str, Any]] = Field(default_factory=list)
    test_input: list[list[int]] = Field(default_factory=list)
    expected_output: list[list[int]] = Field(min_length=1)
    task_id: str | None = None
    agent_mode: Mode | None = None


class Nvarc(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: NvarcConfig

    def __init__(self, config: NvarcConfig, settings: Settings) -> None:
        super().__init__(config, settings)
        self.mode: Mode = config.agent_mode
        self.seconds = config.python_timeout_seconds
        self.strict = config.strict
        self.places = asyncio.Semaphore(config.python_max_concurrency)

    async def verify(self, rollout: NvarcTask) -> dict[str, Any]:
        """1.0 for the very grid."""
        mode = rollout.agent_mode or self.mode
        if mode == "inductive":
            board, reason = await self.run(rollout.joined_text, rollout.test_input)
        else:
            board = read_board(rollout.joined_text, strict=self.strict)
            reason = "the answer holds no grid"
        right = board == rollout.expected_output
        fields: dict[str, Any] = {
            "reward": float(right),
            "predicted_output": board,
            "extraction_successful": board is not None,
            "exact_match": right,
            "agent_mode": mode,
        }
        return fields if right else {**fields, "reason": reason if board is None else "the grid is another one"}

    async def run(self, text: str, inputs: Board) -> tuple[Board | None, str]:
        """What the answer's function makes of the input, and why it made nothing."""
        code = read_code(text)
        if code is None:
            return None, "the answer holds no code"
        async with self.places:
            value, error = await run_candidate(code, inputs, seconds=self.seconds)
        return as_board(value), error or "transform returned no grid"


app = Nvarc.app()
