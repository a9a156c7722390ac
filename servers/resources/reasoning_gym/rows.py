"""What a row holds, and what its reply says beside the reward."""

from pydantic import Field

from gym.server import Score, VerifyRequest
from gym.wire.rows import Tolerant


class Metadata(Tolerant):
    source_dataset: str = Field(min_length=1)


class ReasoningTask(VerifyRequest):
    question: str
    answer: str | None = None
    metadata: Metadata


class ReasoningGymScore(Score):
    task_name: str
    score: float
    extracted_answer: str
