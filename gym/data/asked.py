"""What a row asks, as keys: rows that ask the same have the same key, however the rest of the row differs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from gym.data.rows import PARAMS
from gym.wire.items import is_message, item_text


def user_texts(row: Mapping[str, Any]) -> Iterator[str]:
    """The text of each user message, in order; an input that is a string is one."""
    asked = row[PARAMS].get("input")
    if isinstance(asked, str):
        yield asked
    for item in asked if isinstance(asked, list) else ():
        if is_message(item, "user"):
            yield item_text(item, "\n")


def user_key(row: Mapping[str, Any]) -> bytes:
    """Of the user messages, whatever the blanks between their words; of the whole input where none has a text."""
    texts = [" ".join(text.split()) for text in user_texts(row)]
    return digest_value(texts) if any(texts) else digest_value(row[PARAMS].get("input"))


def digest_value(value: Any) -> bytes:
    return hashlib.blake2b(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), digest_size=8).digest()
