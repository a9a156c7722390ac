"""Checks that an answer says the expected one. Strict: as its last word on it, and not as one of several guesses."""

from __future__ import annotations

import re

from gym.server.slots import is_denied, is_withdrawn, without_marks

LONGEST = 2_000  # characters of an answer to one question
FEW = 3  # words of a line that is not a sentence
_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?")
_ASIDE = re.compile(r"\([^()]*\)")
_SENTENCE = re.compile(r"[.!?]\s+|\n|[.!?]\Z")
_LISTING = re.compile(r"[\s,;/|?!]*(?:\s(?:or|and)\s)?[\s,;/|?!]*", re.IGNORECASE)
_BEFORE = re.compile(r"(\w+)\s*(,|;|/|\||\bor\b|\band\b)\s*(?:or\s+|and\s+)?\Z", re.IGNORECASE)
_BEHIND = re.compile(r"\s*(?:;|/|\||\bor\b|\band\b|,\s*(?=\w+\s*(?:[,;./|]|\bor\b|\band\b|\Z)))\s*\w", re.IGNORECASE)
_OPENERS = frozenset(re.findall(r"\w+", "well yes no so sure ok okay right hmm thanks indeed now then finally"))


def holds(expected: str, text: str) -> bool:
    return bool(expected.strip()) and expected.lower() in text.lower()


def stands_by(expected: str, text: str) -> bool:
    """It stands there as a word of its own, the last number or no list's member, and nothing takes it back."""
    wanted, text = expected.strip(), without_marks(text[-LONGEST:])
    found = list(re.finditer(rf"(?<![\w.]){re.escape(wanted)}(?!\w|\.\d)", text, re.IGNORECASE)) if wanted else []
    if not found or is_denied(text[: found[-1].start()]) or is_withdrawn(text[found[-1].end() :]):
        return False
    if _NUMBER.fullmatch(wanted):
        return _is_last_number(wanted, text)
    return not (_is_listed(text, found[-1]) or _is_said_of_others(wanted, text))


def _is_last_number(wanted: str, text: str) -> bool:
    """`14 - 4 = 10` ends with 10; `8, 9, 10` and `9 or 10` end with a list."""
    text = _ASIDE.sub("", text)
    numbers = list(_NUMBER.finditer(text))
    if not numbers or numbers[-1].group().replace(",", "") != wanted.replace(",", ""):
        return False
    return len(numbers) < 2 or not _LISTING.fullmatch(text, numbers[-2].end(), numbers[-1].start())


def _is_listed(text: str, found: re.Match[str]) -> bool:
    """Beside a comma, a stroke or an `or`; or on a line of its own that is one of several such lines."""
    before = _BEFORE.search(text, 0, found.start())
    if _BEHIND.match(text, found.end()) or (before is not None and before[1].lower() not in _OPENERS):
        return True
    lines = text[text.rfind("\n", 0, found.start()) + 1 :].splitlines()
    return sum(0 < len(line.split()) <= FEW for line in lines) > 1


def _is_said_of_others(wanted: str, text: str) -> bool:
    """The same sentence with another word in its place."""
    sentences = {one.strip().lower() for one in _SENTENCE.split(text)}
    for sentence in sentences:
        before, found, behind = sentence.partition(wanted.lower())
        same = re.compile(rf"{re.escape(before)}\S+{re.escape(behind)}") if found and (before or behind) else None
        if same and any(same.fullmatch(other) and other != sentence for other in sentences):
            return True
    return False
