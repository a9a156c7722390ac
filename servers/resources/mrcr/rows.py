"""What a row holds, and what its reply says beside the reward."""

from typing import Annotated

from pydantic import StringConstraints

from gym.server import Score, VerifyRequest


class MrcrTask(VerifyRequest):
    expected_answer: Annotated[str, StringConstraints(pattern=r"\S")]
    random_string_to_prepend: str
    n_needles: int
    n_tokens: int


class MrcrScore(Score):
    prefix_matched: bool
    seq_match_ratio: float
