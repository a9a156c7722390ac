"""The words of an object's JSON text, as `len(json.dumps(value).split())` counts them, without making that text."""

from __future__ import annotations

from typing import Any

from gym.data.byte_weights import weigh

_BLANKS = bytes(one == ord(" ") for one in range(256))


def count_words(value: dict[str, Any], compact: bytes) -> int:
    """`compact` is the same object as orjson writes it.

    json.dumps puts one blank after each comma and colon between values, and escapes every other white space. So a word
    ends at those and at each run of blanks within a string, and compact JSON has no blanks but these.
    """
    blanks = len(compact.split()) - 1 if b"  " in compact else weigh(compact, _BLANKS)
    return 1 + blanks + _separators(value)


def _separators(value: dict[str, Any] | list[Any]) -> int:
    """Commas and colons between values."""
    if not value:
        return 0
    if type(value) is dict:
        count = 2 * len(value) - 1
        inner: Any = value.values()
    else:
        count = len(value) - 1
        inner = value
    for one in inner:
        kind = type(one)
        if kind is dict or kind is list:
            count += _separators(one)
    return count
