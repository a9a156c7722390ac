"""Competitive programming: runs the answer's code against hidden tests in sandboxes, and compares outside of them."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, Final

from grading import Grade, Grader
from pydantic import Field
from rows import Metadata, extract_code

from gym.sandbox.client import Sandboxes
from gym.sandbox.programs import ProgramLimits, Programs
from gym.sandbox.python_sandboxes import source_of
from gym.server import ResourcesConfig, ResourcesServer, VerifyRequest
from gym.wire.pass_rates import pass_and_majority, pass_and_majority_by
from gym.wire.sandbox import Size

HERE: Final = Path(__file__).parent


class CodeGenConfig(ResourcesConfig):
    num_processes: int = Field(8, ge=1, le=256)  # programs at once
    unit_test_timeout_secs: float = Field(10, gt=0, le=600)  # of CPU time, for one test
    memory_limit: Size = 1 << 30  # of one program
    output_limit: Size = 16 << 20
    sandbox_image: str = ""  # one that has been granted; neither: the packages of `science`, where they can be had
    sandbox_build: str = ""  # `science`, or a folder beside this file with a Dockerfile
    sandbox_per_rollout: bool = False
    reasoning_format_penalty: float = 0.0
    strict: bool = False
    debug: bool = False  # accepted: the log is the broker's


class CodeGenTask(VerifyRequest):
    verifier_metadata: Metadata


class CodeGen(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: CodeGenConfig

    async def start(self) -> None:
        self.sandboxes = Sandboxes.from_settings(self.settings)
        await self.sandboxes.begin()
        config = self.config
        bounds = ProgramLimits(
            cpu=config.unit_test_timeout_secs, memory=config.memory_limit, output=config.output_limit
        )
        self.programs = Programs(
            self.sandboxes,
            source=source_of(config.sandbox_image, config.sandbox_build, HERE),
            most=config.num_processes,
            memory=config.memory_limit,
            fresh=config.sandbox_per_rollout,
        )
        await self.programs.begin()
        self.grader = Grader(self.programs, bounds, strict=config.strict)
        self.turns = asyncio.Semaphore(config.num_processes)

    async def stop(self) -> None:
        await super().stop()
        await self.programs.aclose()
        await self.sandboxes.aclose()

    async def verify(self, rollout: CodeGenTask) -> dict[str, Any]:
        """1.0 when the code passes every test, and nobody thinks aloud in the answer."""
        metadata, text = rollout.verifier_metadata, rollout.output_text
        fields: dict[str, Any] = {
            "reward": 0.0,
            "extracted_model_output": None,
            "extracted_model_code": None,
            "result": None,
            "metadata": None,
            "unit_tests_time_taken": None,
            "reasoning_format_violation_rate": 0.0,
            "difficulty": metadata.difficulty,
        }
        if not text.strip():
            return {**fields, "reason": "the answer is empty"}
        fields["extracted_model_output"] = text
        code = extract_code(text, strict=self.config.strict)
        if not code:
            return {**fields, "reason": "the answer holds no fenced code"}
        async with self.turns:
            began = time.monotonic()
            grade = await self.grader.grade(code, metadata.unit_tests)
            fields["unit_tests_time_taken"] = time.monotonic() - began
        fields |= {"extracted_model_code": code, "result": grade.result, "metadata": grade.metadata}
        return {**fields, **self.reward(rollout, grade)}

    def reward(self, rollout: CodeGenTask, grade: Grade) -> dict[str, Any]:
        if thinks_aloud(rollout):
            reason = "think tags where none belong"
            penalty = self.config.reasoning_format_penalty
            return {"reward": penalty, "reasoning_format_violation_rate": 1.0, "reason": reason}
        return {"reward": 1.0} if grade.passed else {"reward": 0.0, "reason": grade.reason}

    def aggregate(self, replies: list[dict[str, Any]]) -> dict[str, Any]:
        answer = "extracted_model_code"
        return pass_and_majority(replies, answer=answer) | pass_and_majority_by("difficulty", replies, answer=answer)


def thinks_aloud(rollout: CodeGenTask) -> bool:
    if "<think>" in rollout.output_text or "</think>" in rollout.output_text:
        return True
    thoughts = "".join(map(summary_text, rollout.response.output))
    return thoughts.count("<think>") > 1 or thoughts.count("</think>") > 1


def summary_text(item: Any) -> str:
    if not isinstance(item, dict) or item.get("type") != "reasoning":
        return ""
    parts = item.get("summary") or ()
    texts = (part.get("text") for part in parts if isinstance(part, dict))
    return "".join(text for text in texts if isinstance(text, str))


app = CodeGen.app()
