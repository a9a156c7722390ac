"""What a row holds, and what its reply says beside the reward."""

from typing import Annotated, Any

from pydantic import StringConstraints

from gym.server import Score, VerifyRequest


class SimpleqaTask(VerifyRequest):
    question: str = ""
    expected_answer: Annotated[str, StringConstraints(pattern=r"\S")]


class SimpleqaScore(Score):
    extracted_answer: str
    verdict: str
    is_correct: float
    is_incorrect: float
    is_not_attempted: float
    judge_output: str | None
    judge_evaluations: list[dict[str, Any]]
