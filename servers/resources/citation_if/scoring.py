"""Citations: read by a grammar, checked gate by gate. What the workers of the server import.

Only citations are judged, never what the answer says; but there has to be an answer around them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

ATTEMPT = re.compile(r"citation_[A-Za-z0-9_:]+", re.IGNORECASE)  # wider than any row's ids: catches what leaked
DEFAULT_IDS = {"full_source": r"citation_[0-9]+", "snippet": r"citation_[0-9]+:snippet_[0-9]+"}
RESERVED = "citation_xmpl"  # stands in instructions as an example, and is never valid
TAG_OPENED = re.compile(r"<cite\b", re.IGNORECASE)
TAG_CLOSED = re.compile(r"</cite\s*>", re.IGNORECASE)
CLOSING_TAG = "</cite>"


class BadPattern(ValueError):
    """No regular expression."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """What stands before and after the ids, as patterns."""

    before: str
    after: str
    lists: bool = False  # ids may be joined by commas, without spaces
    tag: bool = False
    claim: bool = False  # what is cited stands inside, up to the closing tag


GRAMMARS = {
    "cite_xml": Grammar("<cite>", CLOSING_TAG, lists=True, tag=True),
    "claim_wrap_xml": Grammar('<cite index="', '">', lists=True, tag=True, claim=True),
    "ascii_brackets": Grammar(r"\[", r"\](?!\()"),  # not a Markdown link
    "fullwidth_brackets": Grammar("【", "】"),
    "ref_colon": Grammar(r"\[ref:", r"\]"),
    "double_angle": Grammar("<<", ">>"),
    "web_brackets": Grammar(r"\[web:", r"\]"),
    "paren_part": Grammar(r"\(", r"\)"),
    "markdown_footnote": Grammar(r"\[\^", r"\]"),
    # Never in training rows: a policy that knows what a citation is should handle them as well.
    "curly_double": Grammar(r"\{\{", r"\}\}"),
    "angle_pipe": Grammar(r"<ref\|", ">"),
}


@dataclass(frozen=True, slots=True)
class Span:
    """One well-formed citation: where it stands, its ids, and where its claim does (equal: it has none)."""

    begin: int
    end: int
    ids: tuple[str, ...]
    claim_begin: int
    claim_end: int


def score(text: str, calls: int, asked: dict[str, Any]) -> dict[str, Any]:
    """`match_details` of a reply; full reward is where `gate_failed` is None."""
    details = _empty_details(text, calls, asked)
    grammar = GRAMMARS.get(asked["grammar"])
    if grammar is None:
        return {**details, "gate_failed": "unknown_grammar"}
    pattern = _compile(grammar, details["id_regex"])
    if not details["structural_ok"]:
        return {**details, "gate_failed": "structural"}
    spans = find_spans(pattern, grammar, text)
    details |= _cited(spans, set(asked["valid_id_set"] or ()) - {RESERVED}, text)
    if asked["mode"] == "no_cite":
        marked = details["attempt_hits"] or spans or (grammar.tag and TAG_OPENED.search(text))
        return {**details, "gate_failed": "no_cite" if marked else None}
    return _pass_gates(text, grammar, spans, asked, details)


def _pass_gates(
    text: str, grammar: Grammar, spans: list[Span], asked: dict[str, Any], details: dict[str, Any]
) -> dict[str, Any]:
    if not re.search(r"\w", _without(spans, text, keep_claims=True)):
        return {**details, "gate_failed": "no_answer"}
    if ATTEMPT.search(_without(spans, text, keep_claims=False)) or not _is_balanced(grammar, text, len(spans)):
        return {**details, "gate_failed": "malformed_attempt"}
    cited = details["valid_cited"]
    if len(cited) < asked["min_valid_citations"]:
        return {**details, "gate_failed": "must_cite"}
    if details["invalid_cited"]:
        return {**details, "gate_failed": "no_hallucination"}
    if asked["expected_ids"] is None:
        return details
    expected = set(asked["expected_ids"])
    missed = sorted(expected - set(cited))
    over = len(cited) > len(expected) + asked["expected_slack"]
    failed = "correctness_missed_gold" if missed else "correctness_over_cap" if over else None
    outcome = {"expected_ids": asked["expected_ids"], "missed_ids": missed, "over_cap": over}
    return {**details, **outcome, "gate_failed": failed}


def find_spans(pattern: re.Pattern[str], grammar: Grammar, text: str) -> list[Span]:
    spans: list[Span] = []
    at = 0
    while found := pattern.search(text, at):
        at = claim_begin = claim_end = found.end()
        if grammar.claim:
            claim_end = text.find(CLOSING_TAG, at)
            if claim_end < 0:
                break
            at = claim_end + len(CLOSING_TAG)
            if not text[claim_begin:claim_end].strip():
                continue  # around nothing, it is not a citation
        spans.append(Span(found.start(), at, tuple(found["_ids"].split(",")), claim_begin, claim_end))
        at += at == found.start()
    return spans


def _compile(grammar: Grammar, id_regex: str) -> re.Pattern[str]:
    ids = f"(?:{id_regex})(?:,(?:{id_regex}))*" if grammar.lists else f"(?:{id_regex})"
    try:
        return re.compile(f"{grammar.before}(?P<_ids>{ids}){grammar.after}")
    except (re.error, RecursionError, OverflowError) as error:
        raise BadPattern(f"{id_regex!r:.100} is not a pattern: {error}") from None


def _without(spans: list[Span], text: str, *, keep_claims: bool) -> str:
    """The text with a space for each citation, or for what a citation puts around its claim."""
    parts: list[str] = []
    at = 0
    for span in spans:
        parts += [text[at : span.begin], " "]
        if keep_claims:
            parts += [text[span.claim_begin : span.claim_end], " "]
        at = span.end
    return "".join([*parts, text[at:]])


def _is_balanced(grammar: Grammar, text: str, count: int) -> bool:
    return not grammar.tag or len(TAG_OPENED.findall(text)) == count == len(TAG_CLOSED.findall(text))


def _cited(spans: list[Span], valid: set[str], text: str) -> dict[str, Any]:
    parsed = list(dict.fromkeys(one for span in spans for one in span.ids))
    cited = [one for one in parsed if one in valid]
    attempts = bool(ATTEMPT.search(text))
    return {
        "attempt_hits": attempts,
        "bare_id_hits": attempts,
        "parsed_ids": parsed,
        "cited_ids": cited,
        "valid_cited": cited,
        "invalid_cited": [one for one in parsed if one not in valid],
        "num_valid_cited": len(cited),
    }


def _empty_details(text: str, calls: int, asked: dict[str, Any]) -> dict[str, Any]:
    return {
        "gate_failed": None,
        "mode": asked["mode"],
        "grammar": asked["grammar"],
        "id_kind": asked["id_kind"],
        "id_regex": asked["id_regex"] or DEFAULT_IDS.get(asked["id_kind"], DEFAULT_IDS["full_source"]),
        "structural_ok": bool(text.strip()) and calls == 0,
        "function_call_count": calls,
        **_cited([], set(), ""),
        "expected_ids": asked["expected_ids"],
        "missed_ids": [],
        "over_cap": False,
    }
