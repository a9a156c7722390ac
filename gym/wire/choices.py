"""The options of a multiple-choice row, and which of them a letter or a text that was found in an answer means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Option letters of other scripts, as multilingual sets print them.
LETTERS = {"أ": "A", "ا": "A", "ب": "B", "ج": "C", "د": "D", "অ": "A", "ব": "B", "ড": "C", "ঢ": "D"}
LETTERS |= {"ক": "A", "খ": "B", "গ": "C", "ঘ": "D"}
LETTERS |= {chr(ord("Ａ") + index): chr(ord("A") + index) for index in range(26)}
LETTERS |= {chr(ord("ａ") + index): chr(ord("A") + index) for index in range(26)}


@dataclass(frozen=True, slots=True)
class Options:
    """The options that may be chosen, by letter."""

    texts: Mapping[str, str]  # normalised

    @classmethod
    def of(cls, entries: Sequence[Mapping[str, Any]]) -> Options:
        """`[{"A": "Paris"}, …]`: a key that is not a single letter, and an option without a text, cannot be chosen."""
        chosen = ((key.strip().upper(), value) for entry in entries for key, value in entry.items())
        return cls({key: normalise(str(value)) for key, value in chosen if is_letter(key) and value is not None})

    def letter(self, candidate: str) -> str | None:
        return candidate if candidate in self.texts else None

    def equal_to(self, text: str) -> str | None:
        wanted = normalise(text)
        return next((key for key, value in self.texts.items() if value == wanted), None) if wanted else None

    def contained_in(self, text: str) -> str | None:
        """The only option whose text is in `text`; None where there are several."""
        place = normalise(text)
        found = [key for key, value in self.texts.items() if value and value in place]
        return found[0] if len(found) == 1 else None


def match_to_answer(groups: Sequence[str | None], options: Options) -> str | None:
    """What a row's pattern caught: a letter is taken at its word, anything else must be the text of an option.

    Of several groups the first that gives an answer counts.
    """
    for group in groups:
        caught = (group or "").strip()
        letter = LETTERS.get(caught, caught.upper())
        if is_letter(letter):
            return letter
        if found := options.equal_to(caught):
            return found
    return None


def normalise(text: str) -> str:
    return " ".join(text.lower().split())


def is_letter(text: str) -> bool:
    return len(text) == 1 and text.isalpha()
