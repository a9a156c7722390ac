"""`Judgement: Yes` or `Judgement: No` in a text, and what a set of them is worth as a classifier of proofs."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gym.server.slots import is_denied, is_withdrawn
from gym.wire.answers import without_blocks
from gym.wire.metrics import TASK

Verdict = bool | None
LONGEST_LINE = 2_000  # characters of it that are looked at
LABELS: dict[Verdict, str | None] = {True: "Yes", False: "No", None: None}
_PREFIX = re.compile(r"\*{0,2}Judgement\*{0,2}\s*:", re.IGNORECASE)
_WORD = re.compile(r"[\s*_`]*(yes|no)\b", re.IGNORECASE)
# On one line, with no more than signs, LaTeX commands and these words between: `Yes or No`, `Yes = No`, `Yes \lor No`.
_BETWEEN = r"(?:\\(?:text|math)\w*\{|\\[a-z]+|[^\w\\\n]|_|or\b|and\b|also\b){1,40}"
_OTHER_WORD = re.compile(rf"{_BETWEEN}(?:yes|no)\b", re.IGNORECASE)
_LISTED = re.compile(rf"(?![^\n]*?[.?!]){_BETWEEN}", re.IGNORECASE)  # another sentence is second thoughts, no list
_ITSELF_WRONG = re.compile(r"[\s*_`}]*(?:\\text\w*\{)?\s*(?:is|was)\s+(?:wrong|incorrect|false)\b", re.IGNORECASE)
_IS_WRONG = re.compile(r"\b(?:is|was)\s+(?:wrong|incorrect)\b", re.IGNORECASE)
_MENTION = re.compile(r"\s*\Z|[`'\"\u2019\u201d]")


def read_judgement(text: str, *, strict: bool = False) -> Verdict:
    """Of the first `Judgement:`. Strict: of the last one that says one word, which nothing behind it takes back."""
    if strict:
        return _strict_judgement(unicodedata.normalize("NFKC", text))
    found = _PREFIX.search(text)
    said = text[found.end() :].strip().lstrip("*").strip().lower() if found else ""
    return True if said.startswith("yes") else False if said.startswith("no") else None


def _strict_judgement(text: str) -> Verdict:
    """The mere word, as in "I put it behind `Judgement:`", hides none before it; `Yes or No` is none."""
    prefixes = [found for found in _PREFIX.finditer(text) if not _MENTION.match(text, found.end())]
    words = [_WORD.match(text, prefix.end()) for prefix in prefixes[-2:]]
    if not words or (word := words[-1]) is None or _OTHER_WORD.match(text, word.end()):
        return None
    behind = text[word.end() :]
    listed = words[0] is not None and _LISTED.fullmatch(text[words[0].end() : prefixes[-1].start()])
    is_wrong = word[1].lower() == "yes" and _IS_WRONG.search(behind.partition("\n")[0][:LONGEST_LINE])
    denied = is_wrong or _ITSELF_WRONG.match(behind) or is_denied(text[: prefixes[-1].start()])
    return None if listed or denied or is_withdrawn(behind) else word[1].lower() == "yes"


def without_thoughts(text: str) -> str:
    return without_blocks(without_blocks(text, "think"), "thinking").strip()


def confusion(said: Verdict, truth: Verdict) -> dict[str, float]:
    """One of them is 1, or none when nothing was said."""
    heard = said is not None
    return {
        "tp": float(heard and said is True and truth is True),
        "fp": float(heard and said is True and truth is False),
        "fn": float(heard and said is False and truth is True),
        "tn": float(heard and said is False and truth is False),
    }


def classifier_rates(replies: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Precision, recall and F1, in per cent: of single tries, of the best of k and of the majority of k."""
    tasks: dict[Any, list[Mapping[str, Any]]] = {}
    for reply in replies:
        tasks.setdefault(reply.get(TASK, 0), []).append(reply)
    truths = [_label(group[0], "expected_judgement") for group in tasks.values()]
    tries = [[_label(reply, "extracted_judgement") for reply in group] for group in tasks.values()]
    rates: dict[str, float] = {}
    for k in range(1, min(map(len, tries), default=0) + 1):
        single = [_rates([group[one] for group in tries], truths) for one in range(k)]
        best = [_best(group[:k], truth) for group, truth in zip(tries, truths, strict=True)]
        rates |= _named(f"pass@1[avg-of-{k}]", [sum(column) / k for column in zip(*single, strict=True)])
        rates |= _named(f"pass@{k}", _rates(best, truths))
        rates |= _named(f"majority@{k}", _rates([_majority(group[:k]) for group in tries], truths))
    return rates


def _named(name: str, values: Iterable[float]) -> dict[str, float]:
    return {f"{name}/{what}": 100 * value for what, value in zip(("precision", "recall", "f1"), values, strict=True)}


def _label(reply: Mapping[str, Any], field: str) -> Verdict:
    text = str(reply.get(field) or "")
    return read_judgement(text if ":" in text else f"Judgement: {text}")


def _rates(said: Sequence[Verdict], truths: Sequence[Verdict]) -> tuple[float, float, float]:
    """Nothing called right is precise, and recall of nothing is whole."""
    counted = Counter(zip(said, truths, strict=True))
    right, wrong, positives = counted[True, True], counted[True, False], sum(truth is True for truth in truths)
    precision = right / (right + wrong) if right + wrong else 1.0
    recall = right / positives if positives else 1.0
    return precision, recall, 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _best(said: Sequence[Verdict], truth: Verdict) -> Verdict:
    return truth if truth in said else next((one for one in said if one is not None), None)


def _majority(said: Sequence[Verdict]) -> Verdict:
    """Of those that said something; of equally many, the first."""
    counted = Counter(one for one in said if one is not None)
    return counted.most_common(1)[0][0] if counted else None
