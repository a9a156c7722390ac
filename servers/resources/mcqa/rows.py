"""What a row holds, and what its reply says beside the reward."""

from typing import Any

from grading import GradingMode

from gym.server import Score, VerifyRequest
from gym.server.multiple_choice import Template


class McqaTask(VerifyRequest):
    options: list[dict[str, Any]] | None = None
    expected_answer: str
    grading_mode: GradingMode | None = None
    template_metadata: Template | None = None


class McqaScore(Score):
    extracted_answer: str | None
    expected_answer: str = ""  # where the row spells it in another way
