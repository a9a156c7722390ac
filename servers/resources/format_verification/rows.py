"""What a row holds, and what its reply says beside the reward."""

from typing import Annotated, Any, Literal

from pydantic import Field

from gym.server import Score, VerifyRequest
from gym.wire.rows import Tolerant


class LineFormat(Tolerant):
    type: Literal["regex", "inline_prose"]
    verify_regex: list[str] = []
    verify_min_matches: int = Field(1, ge=0)


class MarkerFormat(Tolerant):
    type: Literal["string_match"]
    expected_markers: list[str] = []
    patterns: list[str] = []


class FormatTask(VerifyRequest):
    verifier: Annotated[LineFormat | MarkerFormat, Field(discriminator="type")]


class FormatVerificationScore(Score):
    match_details: dict[str, Any]
