"""What a row holds, and what its reply says beside the reward."""

from typing import Any

from gym.server import Score, VerifyRequest
from gym.wire.failures import RolloutError
from gym.wire.rows import Tolerant


class Template(Tolerant):
    output_regex: str | None = None


class Facts(Tolerant):
    expected_answer: str | int | float | None = None


class EquivalenceTask(VerifyRequest):
    expected_answer: str | None = None
    metadata: Facts | None = None
    template_metadata: Template | None = None

    @property
    def truth(self) -> str:
        """A row without one cannot be judged."""
        answer = self.expected_answer or (self.metadata.expected_answer if self.metadata else None)
        if answer is None or not str(answer).strip():
            raise RolloutError("row", "expected_answer: a text is needed, here or in metadata.expected_answer")
        return str(answer)


class EquivalenceLlmJudgeScore(Score):
    expected_answer: str
    judge_evaluations: list[dict[str, Any]]
