"""Finds keys that an object has twice. Slow: run only on lines where a cheap check found a reason."""

from __future__ import annotations

import json
from typing import Any, Final

MAX_SHOWN: Final = 5


def find_duplicate_keys(raw: bytes) -> list[str]:
    """The path of each key that is there more than once in its object, the first five."""
    found: list[str] = []
    try:
        tree = json.loads(raw, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return found
    _walk(tree, "", found)
    return found[:MAX_SHOWN]


class _Pairs(list[tuple[str, Any]]):
    """An object with all of its keys."""


def _walk(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, one in value:
            place = f"{path}.{key}" if path else key
            if key in seen:
                found.append(place)
            seen.add(key)
            _walk(one, place, found)
    elif isinstance(value, list):
        for index, one in enumerate(value):
            _walk(one, f"{path}[{index}]", found)
