"""What a row holds, and what its reply says beside the reward."""

from typing import Any, Literal

from gym.server import Score, VerifyRequest
from gym.wire.rows import Tolerant


class Facts(Tolerant):
    label: Literal["safe", "unsafe"] = "safe"
    type: str = "unknown"


class XstestTask(VerifyRequest):
    verifier_metadata: Facts | None = None


class XstestScore(Score):
    label: str
    prompt_type: str
    cleaned_response: str
    is_refusal: bool
    judge_evaluations: list[dict[str, Any]] | None
