"""Values that are nested deeper than JSON is written.

What reads it takes 1,024 levels and more, what writes it 254: so a policy could make a verifier or a tool give back
what cannot be written, and its rollout would be lost.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import orjson

from gym.wire.json_text import write_json

LEVELS = 200  # readers add a few of their own
TOO_DEEP = "is nested deeper than 254 levels"  # of a row
TOO_DEEP_TO_CHANGE = "is nested deeper than 200 levels"  # the parser that keeps large integers stops there
DEEPER = f"... nested deeper than {LEVELS} levels"
UNWRITABLE = (TypeError, ValueError, RecursionError)  # what orjson, pydantic and our own walks raise


def is_too_deep(error: Exception) -> bool:
    """Whether a value could not be written because of its depth; one that contains itself gives the same errors."""
    words = ("Recursion limit", "depth exceeded", "Circular reference")
    return isinstance(error, RecursionError) or any(one in str(error) for one in words)


def cut_depth(value: Any, levels: int = LEVELS, above: Set[int] = frozenset()) -> Any:
    """The value without what is too deep; a `TypeError` where it contains itself, which no policy brings about."""
    if not isinstance(value, dict | list | tuple):
        return value
    if id(value) in above:
        raise TypeError("it contains itself")
    if not levels:
        return DEEPER
    above = above | {id(value)}
    if isinstance(value, dict):
        return {key: cut_depth(one, levels - 1, above) for key, one in value.items()}
    return [cut_depth(one, levels - 1, above) for one in value]


def write_cut(value: Any) -> bytes:
    """JSON of what may hold a value that was read from JSON, and may be deeper than is written."""
    try:
        return write_json(value)
    except UNWRITABLE as error:
        if not is_too_deep(error):
            raise
        return write_json(cut_depth(value))


def write_sorted(value: Any) -> bytes:
    """The same bytes for equal objects, whatever the order of their keys; what is too deep counts as equal."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:
        return orjson.dumps(cut_depth(value), option=orjson.OPT_SORT_KEYS)
