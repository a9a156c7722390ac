"""The three grades of a short answer, and how a judge may write them."""

from __future__ import annotations

from gym.server.verdicts import Verdicts

GRADES = {"A": "correct", "B": "incorrect", "C": "not_attempted"}
_WORDS = {"CORRECT": "A", "INCORRECT": "B", "NOT_ATTEMPTED": "C", "NOT ATTEMPTED": "C"}
_VERDICTS = Verdicts({letter: letter for letter in GRADES} | _WORDS)


def read_grade(text: str) -> str | None:
    """A, B, C, or None where no grade can be read for sure."""
    return _VERDICTS.read(text)
