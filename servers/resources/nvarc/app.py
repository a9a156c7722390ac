"""ARC puzzles in two ways: the policy gives the output grid, or the Python function that makes it from the input."""

from boards import Board, as_board, read_board, read_code
from candidate import Candidates
from pydantic import Field
from rows import Mode, NvarcScore, NvarcTask

from gym.sandbox.broker_client import Sandboxes
from gym.sandbox.python_sandboxes import source_of
from gym.sandbox.short_programs import Programs
from gym.server import ResourcesConfig, ResourcesServer
from gym.wire.failures import RolloutError
from gym.wire.sandbox import Size


class NvarcConfig(ResourcesConfig):
    agent_mode: Mode = "transductive"  # for rows that do not say
    python_timeout_seconds: int = Field(30, ge=1, le=600)  # of CPU time
    python_max_concurrency: int = Field(8, ge=1, le=256)  # functions at once
    memory_limit: Size = 1 << 30  # of one function
    sandbox_image: str = ""  # one that has been granted; neither: the packages of `science`, where they can be had
    sandbox_build: str = ""  # `science`, or a folder beside this file with a Dockerfile
    sandbox_per_rollout: bool = False
    strict: bool = False


class Nvarc(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: NvarcConfig
    candidates: Candidates | None = None  # none for an instance that is granted no sandbox: it reads grids only

    async def start(self) -> None:
        config = self.config
        if config.agent_mode == "transductive" and not self.settings.sandbox_url:
            return
        sandboxes = self.own(Sandboxes.from_settings(self.settings))
        await sandboxes.begin()
        programs = Programs(
            sandboxes,
            source=source_of(config.sandbox_image, config.sandbox_build, self.here),
            max_sandboxes=config.python_max_concurrency,
            memory=config.memory_limit,
            fresh=config.sandbox_per_rollout,
        )
        await programs.begin()
        seconds, memory = config.python_timeout_seconds, config.memory_limit
        self.candidates = self.own(Candidates(programs, seconds=seconds, memory=memory))

    async def verify(self, rollout: NvarcTask) -> NvarcScore:
        """1.0 for the very grid."""
        mode = rollout.agent_mode or self.config.agent_mode
        if mode == "inductive":
            board, reason = await self.run(rollout.joined_text, rollout.test_input)
        else:
            board = read_board(rollout.joined_text, strict=self.config.strict)
            reason = "the answer holds no grid"
        right = board == rollout.expected_output
        why = "" if right else reason if board is None else "the grid is another one"
        return NvarcScore(
            reward=float(right),
            predicted_output=board,
            extraction_successful=board is not None,
            exact_match=right,
            agent_mode=mode,
            reason=why,
        )

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
