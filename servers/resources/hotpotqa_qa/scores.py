"""How good a short answer is, in four ways: equal, words shared, found inside, found where an answer stands."""

from __future__ import annotations

import json
import re
import string
import unicodedata
from collections import Counter
from itertools import islice
from typing import NamedTuple

from spellings import searchable, spellings

from gym.server.slots import plain_number
from gym.wire.answers import balanced_braces

LONG_ANSWER = 80  # characters; in a longer one the truth has to stand
EARLY = 40  # this near to the beginning
SHORT = 4  # a truth as short as this has to be a word of its own
MAX_TRIES = 1000  # of texts that might be JSON
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_VERDICTS = ("yes", "no", "noanswer")


class Scores(NamedTuple):
    answer_em: float
    answer_f1: float
    is_correct: float
    is_correct_strict: float


def read_answer(text: str) -> tuple[str, bool]:
    """The last `{"answer": …}` of a text, or all of it; and whether it was such an object."""
    text = text.strip()
    fenced = (part.removeprefix("json").strip() for part in reversed(text.split("```")[1:-1]))
    for candidate in islice((*fenced, *reversed(balanced_braces(text))), MAX_TRIES):
        try:
            parsed = json.loads(candidate)
            if isinstance(parsed, dict) and "answer" in parsed:
                return str(parsed["answer"]).encode("utf-8", "replace").decode(), True
        except (ValueError, RecursionError):
            continue
    return text, False


def score(answer: str, truth: str) -> Scores:
    given, wanted = normalise(answer), normalise(truth)
    ways = spellings(truth)
    place = searchable(answer)
    found = [way for way in ways if way in place]
    well = any(_stands_well(way, place) for way in found)
    return Scores(float(given == wanted), _f1(given, wanted), float(bool(found)), float(well))


def equals_any(answer: str, truth: str) -> bool:
    """The answer is the truth in one of its spellings, and says nothing else; 14.0 is 14."""
    answer = unicodedata.normalize("NFKC", answer)
    ways = spellings(unicodedata.normalize("NFKC", truth))
    return normalise(answer) in map(normalise, ways) or plain_number(answer) in filter(None, map(plain_number, ways))


def normalise(text: str) -> str:
    """As SQuAD does: no case, no punctuation, no articles."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def _f1(given: str, wanted: str) -> float:
    if given != wanted and (given in _VERDICTS or wanted in _VERDICTS):
        return 0.0
    words, others = given.split(), wanted.split()
    shared = (Counter(words) & Counter(others)).total()
    return 2 * shared / (len(words) + len(others)) if shared else 0.0


def _stands_well(way: str, place: str) -> bool:
    if len(way) <= SHORT and not re.search(rf"(?<![a-z0-9]){re.escape(way)}(?![a-z0-9])", place):
        return False
    return len(place) <= LONG_ANSWER or place.find(way) <= EARLY
