"""How much an answer is like the expected one, under three rules. Letter case and spacing never count."""

from __future__ import annotations

import unicodedata
from difflib import SequenceMatcher
from typing import Literal

GradingRule = Literal["exact", "seq_match", "weighted_seq_match"]

PREFIX = 10  # characters of the expected answer that a good beginning is measured by
PREFIX_WEIGHT = 0.15
MIN_LIKENESS = 0.02  # an answer whose likeness cannot be above this is not compared: it is 99 times too long
ENOUGH = 0.5  # what strict asks of a likeness before it is worth anything
_AROUND = "\"'`*_.!?"


def normalise(text: str) -> str:
    return " ".join(text.strip().lower().split())


def exact(answer: str, expected: str, *, strict: bool) -> float:
    """Strict reads a quoted, emphasised or punctuated answer as the same answer."""
    if strict:
        answer, expected = (unicodedata.normalize("NFKC", text).strip().strip(_AROUND) for text in (answer, expected))
    return float(normalise(answer) == normalise(expected))


def is_hopeless(answer: str, expected: str) -> bool:
    """Two texts share at most the shorter one."""
    return 2 * len(expected) < MIN_LIKENESS * (len(answer) + len(expected))


def likeness(rule: GradingRule, answer: str, expected: str) -> float:
    """From 0 to 1. May take long on long texts: called in a worker."""
    given, wanted = normalise(answer), normalise(expected)
    whole = SequenceMatcher(None, given, wanted).ratio()
    if rule == "seq_match":
        return whole
    beginning = wanted[:PREFIX]
    start = SequenceMatcher(None, given[: len(beginning)], beginning).ratio()
    return (1 - PREFIX_WEIGHT) * whole + PREFIX_WEIGHT * start
