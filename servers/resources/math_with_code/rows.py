"""What a row holds, and what its reply says beside the reward."""

from __future__ import annotations

from pydantic import field_validator

from gym.server import Score, VerifyRequest


class MathTask(VerifyRequest):
    expected_result: str
    expected_code_contains: str = ""

    @field_validator("expected_result")
    @classmethod
    def _not_empty(cls, given: str) -> str:
        if not given.strip():
            raise ValueError("an empty expected_result equals no answer")
        return given


class MathWithCodeScore(Score):
    extracted_answer: str | None
    accuracy: bool
