"""The ways in which a short expected answer may be written, and whether an answer is fit to be searched for it."""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST = 40  # characters; a longer truth is seldom met word for word
SHORTEST = 3  # of a spelling that is not the truth itself
_ARTICLE = re.compile(r"(?:the|an?) ", re.IGNORECASE)
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3})")
_DOTS = re.compile(r"(?<!\d)\.(?!\d)")
_NUMBERS = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
_DIGITS = {word: str(value) for value, word in enumerate([*_NUMBERS.split(), "eighteen", "nineteen", "twenty"], 1)}
_DIGITS |= {"first": "1st", "second": "2nd", "third": "3rd", "fourth": "4th", "fifth": "5th"}
_DIGITS |= {"nineteenth": "19th", "twentieth": "20th", "twenty-first": "21st"}
_WORDS = {digits: word for word, digits in _DIGITS.items()}
_SMALL_WORDS = frozenset(
    re.findall(
        r"\w+",
        "the a an of in on at for and or to by is was are were be been with from that this it its his her my our their"
        " no not but if as into about than then",
    )
)
_SPACES = str.maketrans(
    dict.fromkeys("\u202f\u00a0\u2009\u200a\u2002\u2003", " ")
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015", "-")
    | dict.fromkeys("\u2018\u2019", "'")
    | dict.fromkeys("\u201c\u201d", '"')
)


def spellings(truth: str) -> list[str]:
    """The truth and what may pass for it, each as it is searched for."""
    found = {truth, *_other_spellings(truth)}
    found |= {_ARTICLE.sub("", one, count=1) for one in found if _ARTICLE.match(one)}
    clean = (" ".join(one.split()) for one in found)
    kept = {one for one in clean if one and (len(one) >= SHORTEST or one == truth.strip() or one.isdigit())}
    return sorted({searchable(one) for one in kept} - {""})


def searchable(text: str) -> str:
    """Lower case; every kind of blank, dash and quote is one kind."""
    return re.sub(" +", " ", text.lower().translate(_SPACES)).strip()


def why_unreliable(truth: str) -> str:
    """Why a search for this truth says little: it is long, or the whole name of a person; nothing when it says much."""
    if len(truth) > LONGEST:
        return "gt_too_long"
    parts = truth.strip().rstrip(".").split()
    capitals = [part for part in parts if part[0].isupper() and part.lower() not in _SMALL_WORDS]
    if len(parts) in (3, 4) and len(capitals) == len(parts):
        return "multi_word_name"
    return "multi_word_name" if len(parts) in (5, 6) and len(capitals) >= 3 else ""


def _other_spellings(truth: str) -> Iterator[str]:
    yield re.sub('["\u201c\u201d]', "", truth).strip()
    if "(" in truth:
        yield re.sub(r"\s*\([^()]*\)\s*", " ", truth).strip()
        yield from (inside for inner in re.findall(r"\(([^()]+)\)", truth) if len(inside := inner.strip()) > 1)
    low = truth.lower().strip()
    yield from (table[low] for table in (_DIGITS, _WORDS) if low in table)
    yield _THOUSANDS.sub("", truth)
    if truth[-1:] in {*".,;:!?"}:
        yield truth[:-1].rstrip()
    if len(dotless := _DOTS.sub("", truth)) > 1:
        yield dotless
    if not truth.startswith("-"):
        yield truth.replace("-", " ")
    yield truth.replace(" & ", " and ")
    before, found, after = _split_at_and(truth)
    if found:
        yield f"{before} & {after}"


def _split_at_and(text: str) -> tuple[str, bool, str]:
    at = text.lower().find(" and ")
    return (text[:at], True, text[at + 5 :]) if at >= 0 else ("", False, "")
