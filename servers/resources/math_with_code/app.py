"""Mathematics with a Python tool: an interpreter in a sandbox for each rollout, and an answer in a box."""

from __future__ import annotations

from typing import Any

from answers import find_answer, same_answer
from pydantic import Field
from rows import MathTask, MathWithCodeScore
from session import Limits, Session

from gym.sandbox.broker_client import Sandboxes
from gym.sandbox.python_sandboxes import PythonSandboxes, source_of
from gym.server import ResourcesConfig, ResourcesServer, tool
from gym.wire.rows import Row
from gym.wire.sandbox import Size

ENDED: dict[str, Any] = {"success": True, "stdout": "", "stderr": "", "error_message": None, "result": None}


class MathWithCodeConfig(ResourcesConfig):
    max_execution_time: float = Field(10, gt=0, le=600)  # of CPU time, for one piece of code
    memory_limit: Size = 1 << 30
    max_output: Size = 16 << 10  # of each stream; the head and the tail are kept
    sandbox_image: str = ""  # one that has been granted; neither: the packages of `science`, where they can be had
    sandbox_build: str = ""  # `science`, or a folder beside this file with a Dockerfile
    strict: bool = False


class MathWithCode(ResourcesServer[Session]):
    reverify_mode = "stateless"
    answer = "extracted_answer"
    config: MathWithCodeConfig

    async def start(self) -> None:
        self.sandboxes = self.own(Sandboxes.from_settings(self.settings))
        await self.sandboxes.begin()
        config = self.config
        limits = {"memory": config.memory_limit + (256 << 20), "pids": 128}
        source = source_of(config.sandbox_image, config.sandbox_build, self.here)
        ttl = config.session_ttl_seconds + 60
        self.pythons = self.own(PythonSandboxes(self.sandboxes, source, limits=limits, ttl=ttl))
        await self.pythons.begin()

    async def seed(self, row: Row) -> Session:
        return await self.unseeded()

    async def unseeded(self) -> Session:
        config = self.config
        limits = Limits(config.max_execution_time, config.memory_limit, config.max_output)
        return Session(self.sandboxes, self.pythons, limits)

    async def close(self, state: Session) -> None:
        await state.close()

    @tool
    async def execute_python(self, code: str, state: Session) -> dict[str, Any]:
        """Execute Python code to perform calculations. You have access to numpy, scipy, pandas and basic math
        operations."""
        return await state.run(code)

    @tool
    async def end_session(self, state: Session) -> dict[str, Any]:
        """Clean up the Python execution session."""
        await state.close()
        return ENDED

    async def verify(self, rollout: MathTask, state: Session | None) -> MathWithCodeScore:
        """1.0 when the boxed answer is the expected one. Nothing runs for it."""
        answer = find_answer(rollout.response.output, strict=self.config.strict)
        right = same_answer(answer, rollout.expected_result, strict=self.config.strict)
        reason = "" if right else "the answer holds no box" if answer is None else "the boxed answer is another one"
        return MathWithCodeScore(reward=float(right), extracted_answer=answer, accuracy=right, reason=reason)


app = MathWithCode.app()
