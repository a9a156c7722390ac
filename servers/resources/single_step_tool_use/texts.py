"""Texts as bags of words."""

from __future__ import annotations

import re
from collections import Counter

from gym.server.content_words import content_words

SENTENCE = 4  # words; of fewer each one counts
_SIGNS = re.compile(r"\d+|\b(?:not|no|nor|never|none|without|cannot|except)\b|n't")
ABOUT = 0.2  # of the words that say something in the expected message


def words_of(text: str, *, keep_quotes: bool) -> Counter[str]:
    return Counter(split_keeping_quotes(text.lower()) if keep_quotes else text.lower().split())


def says_the_same(wanted: str, given: str) -> bool:
    """Equal words; of a sentence those that say something, in any order, with its numbers and its words of denial."""
    if wanted.lower().split() == given.lower().split():
        return True
    if len(wanted.split()) < SENTENCE or not (words := content_words(wanted)):
        return False
    signs, others = (Counter(_SIGNS.findall(text.lower())) for text in (wanted, given))
    return words == content_words(given) and signs == others


def is_about(text: str, wanted: str) -> bool:
    """Some of the words that say something; any message where the expected one has none."""
    words = content_words(wanted)
    return not words or len(words & content_words(text)) >= max(1, ABOUT * len(words))


def is_copy(text: str, before: str) -> bool:
    """Nothing but a piece of the talk before, or all of it."""
    one, other = " ".join(text.lower().split()), " ".join(before.lower().split())
    return bool(other) and (one in other or other in one)


def split_keeping_quotes(text: str) -> list[str]:
    """Words, and runs in quotes as one word with their quotes; where a quote never closes, quotes are dropped."""
    words: list[str] = []
    begin = at = 0
    while at < len(text):
        if (quote := text[at]) not in "\"'":
            at += 1
            continue
        end = text.find(quote, at + 1)
        if end < 0:
            return text.replace('"', "").replace("'", "").split()
        words += [*text[begin:at].split(), text[at : end + 1]]
        begin = at = end + 1
    return [*words, *text[begin:].split()]
