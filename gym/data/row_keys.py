"""What a row asks, as keys: rows that ask the same have the same key, however the rest of the row differs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gym.data.row_parsing import PARAMS
from gym.data.statistics import digest, user_messages


def user_key(row: Mapping[str, Any]) -> bytes:
    """Of the user messages, whatever the blanks between their words; of the whole input where none has a text."""
    params = row[PARAMS]
    texts = [" ".join(text.split()) for text in user_messages(params)]
    return digest(texts) if any(texts) else digest(params.get("input"))


def asked_key(row: Mapping[str, Any]) -> bytes:
    """Of the input and the tools alone: a collection may have set other sampling parameters."""
    params = row[PARAMS]
    return digest([params.get("input"), params.get("tools") or []])
