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


REASONS = {
    "unknown_grammar": "the row names an unknown grammar",
    "structural": "the answer is empty, or calls a tool",
    "no_answer": "there is nothing but citations",
    "malformed_attempt": "an id stands outside of a citation in the grammar that was asked for",
    "must_cite": "too few valid citations",
    "no_hallucination": "a source is cited that does not exist",
    "correctness_missed_gold": "a required source is not cited",
    "correctness_over_cap": "more sources are cited than the answer needs",
    "no_cite": "there is a citation where none was to be",
    "ungrounded": "strict: the answer says nothing of what was found",
}
