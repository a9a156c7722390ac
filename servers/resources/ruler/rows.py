"""What a row holds, and what its reply says beside the reward."""

from typing import Annotated

from pydantic import Field, StringConstraints

from gym.server import Score, VerifyRequest


class RulerTask(VerifyRequest):
    outputs: list[Annotated[str, StringConstraints(min_length=1)]] = Field(min_length=1)
    length: int
    subset: str


class RulerScore(Score):
    string_match_all_single: float
    string_match_part_single: float
