"""Answers that look at no question: what a policy may learn that always says the same.

The most frequent right answer is among them where the rows say what is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

CONSTANTS: Final = ("", "A", "yes", "0", "I don't know")
FORMS: Final = ("{}", "Answer: {}", r"\boxed{{{}}}", "<answer>{}</answer>")  # the best of them counts
GOLD: Final = ("answer", "expected", "outputs", "ground_truth", "label")
GOLD_PREFIX: Final = "expected_"  # and every field whose name begins so
LONGEST: Final = 200


def constant_answers(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """What is always said -> the texts in which it is said."""
    said = dict.fromkeys([*CONSTANTS, *most_frequent_gold(rows)])
    return {text: tuple(form.format(text) for form in FORMS) if text else ("",) for text in said}


def most_frequent_gold(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """None where no row names one; the first of those that are as frequent."""
    counted = Counter(text for row in rows for text in golds_of(row))
    return [text for text, _ in counted.most_common(1)]


def right_share(rows: Sequence[Mapping[str, Any]], text: str) -> float:
    """In how many of the rows it is the right answer: so much of it is not a fault."""
    return sum(text in golds_of(row) for row in rows) / len(rows) if rows else 0.0


def golds_of(row: Mapping[str, Any]) -> Iterator[str]:
    for fields in (row, row.get("verifier_metadata")):
        for name, value in fields.items() if isinstance(fields, Mapping) else ():
            if name in GOLD or name.startswith(GOLD_PREFIX):
                yield from _texts(value)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, list) and len(value) == 1:
        yield from _texts(value[0])
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool) and 0 < len(str(value)) <= LONGEST:
        yield str(value)
