"""Texts as bags of words."""

from __future__ import annotations

from collections import Counter


def words_of(text: str, *, keep_quotes: bool) -> Counter[str]:
    return Counter(split_keeping_quotes(text.lower()) if keep_quotes else text.lower().split())


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
