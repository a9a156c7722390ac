"""What a row holds, and what its reply says beside the reward."""

from typing import Annotated

from pydantic import Field, StringConstraints

from gym.server import Score, VerifyRequest


class PolymathTask(VerifyRequest):
    question: str
    expected_answer: Annotated[str, StringConstraints(pattern=r"\S", max_length=8_000)]
    weight: float | None = Field(None, gt=0)
    language: str | None = None


class PolymathScore(Score):
    library_reward: float
    extracted_answer: str | None
    judge_evaluations: None = None
    library_error: str = ""  # why the answer could not be compared


def score(equal: bool, extracted: str | None, reason: str) -> PolymathScore:
    reward = float(equal)
    return PolymathScore(
        reward=reward, library_reward=reward, extracted_answer=extracted, judge_evaluations=None, reason=reason
    )
