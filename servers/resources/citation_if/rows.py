"""What a row holds, and what its reply says beside the reward."""

from typing import Any, Literal

from gym.server import Score, VerifyRequest
from gym.wire.rows import Tolerant


class Citations(Tolerant):
    mode: Literal["cite", "no_cite"] = "cite"
    grammar: str = ""
    id_kind: str = "full_source"
    id_regex: str | None = None
    valid_id_set: list[str] | None = None
    expected_ids: list[str] | None = None
    expected_slack: int = 1
    min_valid_citations: int = 1


class CitationTask(VerifyRequest):
    verifier: Citations


class CitationIfScore(Score):
    match_details: dict[str, Any]
