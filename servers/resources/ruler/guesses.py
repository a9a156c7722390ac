"""How many more things than it was asked for an answer names: what strict divides by. Linear in the text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from gym.server import VerifyRequest
from gym.server.slots import is_denied, is_withdrawn
from gym.wire.items import input_items, item_text

WORDS = 40  # beside three for each that is asked for: a sentence around them
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")


def plain(answer: str) -> str:
    """Full-width characters as usual ones, and numbers without commas between thousands."""
    return _THOUSANDS.sub("", unicodedata.normalize("NFKC", answer))


def is_alone(text: str, answer: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", answer) is not None


def precision(answer: str, outputs: Sequence[str]) -> float:
    """1 for as many values of the asked kind as were asked for; the share that may be right where there are more.

    Nothing where one was asked for and the answer names two, or takes it back.
    """
    if len(outputs) == 1 and _takes_back(answer, outputs[0]):
        return 0.0
    named = set(_WORD.findall(answer))
    if all(any(map(str.isdigit, text)) and _WORD.fullmatch(text) for text in outputs):
        shapes = {_shape(text) for text in outputs}
        alike = sum(_shape(word) in shapes for word in named)
        return 0.0 if alike > len(outputs) == 1 else min(1.0, len(outputs) / max(alike, 1))
    return min(1.0, (WORDS + 3 * sum(len(text.split()) for text in outputs)) / max(len(named), 1))


def _takes_back(answer: str, output: str) -> bool:
    before, found, behind = answer.rpartition(output)
    both = output in ("yes", "no") and is_alone("yes", answer) and is_alone("no", answer)
    return both or bool(found and (is_denied(before) or is_withdrawn(behind)))


def _shape(text: str) -> str:
    """Numbers of as many digits are of one kind, and so are identifiers cut alike."""
    return re.sub(r"[^\W_]", "x", text) + ("#" if text.isdigit() else "")


COPY = 400  # characters: as much of the prompt's end, word for word, is not an answer


def repeats(answer: str, rollout: VerifyRequest) -> bool:
    """The context holds every needle, so handing it back would find them all."""
    for item in input_items(rollout.responses_create_params.input):
        context = item_text(item).strip().lower()
        if len(context) >= COPY and (context[:COPY] in answer or context[-COPY:] in answer):
            return True
    return False
