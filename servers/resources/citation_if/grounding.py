"""Checks that an answer repeats something of the sources. Only strict mode asks for it.

Compared are words: those of the sources that the question does not have. Which of them is right is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from gym.server.content_words import content_words
from gym.wire.items import Item, item_text

_ID: Final = re.compile(r"citation_[A-Za-z0-9_:]+", re.IGNORECASE)


def is_grounded(text: str, given: Iterable[Item]) -> bool:
    """A word or number of the tools' results, which no message had before; of the messages where no tool was asked."""
    asked, found = [], []
    for item in given:
        (found if item.get("type") == "function_call_output" else asked).append(_text_of(item))
    known = _words(asked)
    new = _words(found) - known if any(found) else known
    return not new or bool(_words([text]) & new)


def _words(texts: list[str]) -> set[str]:
    return content_words(_ID.sub(" ", " ".join(texts)))


def _text_of(item: Item) -> str:
    output: Any = item.get("output")
    if item.get("type") == "function_call_output":
        return output if isinstance(output, str) else item_text({"content": output})
    return item_text(item, "\n")
