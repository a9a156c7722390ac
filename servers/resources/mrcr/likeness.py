"""How alike two long texts are. Quadratic in the worst case: called in a worker."""

from difflib import SequenceMatcher


def ratio(answer: str, expected: str) -> float:
    return SequenceMatcher(None, answer, expected).ratio()
