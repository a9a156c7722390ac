"""What a row holds, and what its reply says beside the reward."""

from typing import Annotated

from judgement import read_judgement
from pydantic import AfterValidator

from gym.server import Score, VerifyRequest


def _is_judgement(text: str) -> str:
    if read_judgement(text) is None:
        raise ValueError("`Judgement: Yes` or `Judgement: No` is needed")
    return text


class MathProofJudgementTask(VerifyRequest):
    expected_judgement: Annotated[str, AfterValidator(_is_judgement)]
    problem_id: str | None = None
    problem: str | None = None
    proof: str | None = None


class MathProofJudgementScore(Score):
    extracted_judgement: str | None
