"""Competitive programming: runs the answer's code against hidden tests in sandboxes, and compares outside of them."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from grading import Grader
from pydantic import Field
from rows import Metadata, extract_code

from gym.sandbox.broker_client import Sandboxes
from gym.sandbox.python_sandboxes import source_of
from gym.sandbox.short_programs import ProgramLimits, Programs
from gym.server import ResourcesConfig, ResourcesServer, Score, VerifyRequest
from gym.wire.pass_rates import pass_and_majority, pass_and_majority_by
from gym.wire.sandbox import Size

FIELDS = ("extracted_model_output", "extracted_model_code", "result", "metadata", "unit_tests_time_taken")
NOTHING: Final[dict[str, Any]] = {**dict.fromkeys(FIELDS), "reasoning_format_violation_rate": 0.0}


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


class CodeGenScore(Score):
    extracted_model_output: str | None = None
    extracted_model_code: str | None = None
    result: Any = None
    metadata: Any = None
    unit_tests_time_taken: float | None = None
    reasoning_format_violation_rate: float = 0.0
    difficulty: Any = None


class CodeGen(ResourcesServer[None]):
    reverify_mode = "stateless"
    config: CodeGenConfig

    async def start(self) -> None:
        self.sandboxes = self.own(Sandboxes.from_settings(self.settings))
        await self.sandboxes.begin()
        config = self.config
        bounds = ProgramLimits(
            cpu=config.unit_test_timeout_secs, memory=config.memory_limit, output=config.output_limit
        )
        source = source_of(config.sandbox_image, config.sandbox_build, self.here)
        limits = {
            "max_sandboxes": config.num_processes,
            "memory": config.memory_limit,
            "fresh": config.sandbox_per_rollout,
        }
        programs = self.own(Programs(self.sandboxes, source=source, **limits))
        await programs.begin()
        self.programs = programs
        self.grader = Grader(programs, bounds, strict=config.strict)
        self.turns = asyncio.Semaphore(config.num_processes)

    async def verify(self, rollout: CodeGenTask) -> CodeGenScore:
        """1.0 when the code passes every test, and the answer holds no reasoning."""
        metadata, text = rollout.verifier_metadata, rollout.output_text
        score = CodeGenScore(reward=0.0, difficulty=metadata.difficulty, **NOTHING)
        if not text.strip():
            score.reason = "the answer is empty"
            return score
        score.extracted_model_output = text
        code = extract_code(text, strict=self.config.strict)
        if not code:
            score.reason = "the answer holds no fenced code"
            return score
        async with self.turns:
            began = time.monotonic()
            grade = await self.grader.grade(code, metadata.unit_tests)
            score.unit_tests_time_taken = time.monotonic() - began
        score.extracted_model_code, score.result, score.metadata = code, grade.result, grade.metadata
        if thinks_aloud(rollout):
            score.reward, score.reasoning_format_violation_rate = self.config.reasoning_format_penalty, 1.0
            score.reason = "think tags where none belong"
        else:
            score.reward, score.reason = float(grade.passed), "" if grade.passed else grade.reason
        return score

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
