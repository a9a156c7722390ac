"""ARC puzzles in two ways: the policy gives the output grid, or the Python function that makes it from the input."""

from pathlib import Path
from typing import Any, Final, Literal

from boards import Board, as_board, read_board, read_code
from candidate import Candidates
from pydantic import Field

from gym.sandbox.client import Sandboxes
from gym.sandbox.programs import Programs
from gym.sandbox.python_sandboxes import source_of
from gym.server import ResourcesConfig, ResourcesServer, VerifyRequest
from gym.wire.failures import RolloutError
from gym.wire.sandbox import Size

HERE: Final = Path(__file__).parent
Mode = Literal["transductive", "inductive"]


class NvarcConfig(ResourcesConfig):
    agent_mode: Mode = "transductive"  # for rows that do not say
    python_timeout_seconds: int = Field(30, ge=1, le=600)  # of CPU time
    python_max_concurrency: int = Field(8, ge=1, le=256)  # functions at once
    memory_limit: Size = 1 << 30  # of one function
    sandbox_image: str = ""  # one that has been granted; neither: the packages of `science`, where they can be had
    sandbox_build: str = ""  # `science`, or a folder beside this file with a Dockerfile
    sandbox_per_rollout: bool = False
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
    sandboxes: Sandboxes | None = None  # none for an instance that is granted none: it reads grids only
    candidates: Candidates | None = None

    async def start(self) -> None:
        config = self.config
        if config.agent_mode == "transductive" and not self.settings.sandbox_url:
            return
        self.sandboxes = Sandboxes.from_settings(self.settings)
        await self.sandboxes.begin()
        programs = Programs(
            self.sandboxes,
            source=source_of(config.sandbox_image, config.sandbox_build, HERE),
            most=config.python_max_concurrency,
            memory=config.memory_limit,
            fresh=config.sandbox_per_rollout,
        )
        await programs.begin()
        self.candidates = Candidates(programs, seconds=config.python_timeout_seconds, memory=config.memory_limit)

    async def stop(self) -> None:
        await super().stop()
        if self.candidates is not None:
            await self.candidates.aclose()
        if self.sandboxes is not None:
            await self.sandboxes.aclose()

    async def verify(self, rollout: NvarcTask) -> dict[str, Any]:
        """1.0 for the very grid."""
        mode = rollout.agent_mode or self.config.agent_mode
        if mode == "inductive":
            board, reason = await self.run(rollout.joined_text, rollout.test_input)
        else:
            board = read_board(rollout.joined_text, strict=self.config.strict)
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
        if self.candidates is None:
            what = f"{self.name} runs no code: its configuration grants it no `sandbox:`"
            raise RolloutError("sandbox", what, retryable=False)
        value, error = await self.candidates.run(code, inputs)
        return as_board(value), error or "transform returned no grid"


app = Nvarc.app()
