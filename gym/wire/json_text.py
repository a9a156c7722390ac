"""JSON of what a model wrote, which need not be text: where half a surrogate pair or a stray byte stands, U+FFFD does.

Every body passes here on its way in and out of a server: an answer with broken text is scored, never refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import orjson
from pydantic_core import from_json, to_json

ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
HALF_ESCAPE: Final = re.compile(rb"\\u[dD]")
HALF: Final = re.compile(r"[\ud800-\udfff]")
EVERY: Final = 1024  # bytes: what is more frequent is not rare
SHORT: Final = 16 * 1024


def repair_body(body: bytes) -> bytes:
    """JSON that any reader takes; the same bytes where nothing was wrong with its text."""
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError:
            body = body.decode("utf-8", "replace").encode()
    if not lacks(body, b"\\u") and HALF_ESCAPE.search(body):
        body = ESCAPE.sub(lambda found: b"\\ufffd" if found[1] else found[0], body)
    return body


def parse_or(text: bytes | str, otherwise: Any = None) -> Any:
    """What it says, or something else where it is not JSON."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return otherwise


def quick_find(body: bytes, needle: bytes) -> bool | None:
    """Whether `needle` is in it; None where a long body would have to be searched.

    It goes from one first letter to the next, which takes a twentieth of a search where those are rare, as in arrays of
    numbers: 0.1 ms instead of 2.2 for 3 MB.
    """
    at = -1
    for _ in range(1 + len(body) // EVERY):
        at = body.find(needle[:1], at + 1)
        if at < 0 or body.startswith(needle, at):
            return at >= 0
    return needle in body if len(body) <= SHORT else None


def lacks(body: bytes, needle: bytes) -> bool:
    """Whether `needle` is surely not in it."""
    return quick_find(body, needle) is False


def read_json(body: bytes) -> Any:
    """Of a peer; `orjson.JSONDecodeError` for what is not JSON even then."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        fixed = repair_body(body)
        if fixed == body:
            raise
        return orjson.loads(fixed)


def read_exact_json(text: bytes | str) -> Any:
    """With integers of any size; the same errors as `orjson.loads`, which makes large ones floats."""
    found = orjson.loads(text)
    try:
        return from_json(text)
    except ValueError:  # nested deeper than this reader goes
        return found


def write_json(value: Any, *, default: Callable[[Any], Any] | None = None, option: int | None = None) -> bytes:
    try:
        return orjson.dumps(value, default=default, option=option)
    except TypeError as error:
        if "64-bit" in str(error):  # what a model wrote may hold such a number
            return write_any_json(value, default)
        if "surrogates" not in str(error):
            raise
        plain = None if default is None else lambda found: replace_surrogates(default(found))
        return write_json(replace_surrogates(value), default=plain, option=option)


def write_any_json(value: Any, default: Callable[[Any], Any] | None = None) -> bytes:
    """With integers of any size, models, and JSON that is written already."""
    try:
        return to_json(value, fallback=default)
    except ValueError as error:
        if "orjson.Fragment" in str(error):
            return write_any_json(value, partial(_read_fragment, default))
        if "surrogates" not in str(error):
            raise
        return to_json(replace_surrogates(value), fallback=default)


def _read_fragment(default: Callable[[Any], Any] | None, found: Any) -> Any:
    if isinstance(found, orjson.Fragment):
        return from_json(orjson.dumps(found))
    if default is None:
        raise TypeError(f"Type is not JSON serializable: {type(found).__name__}")
    return default(found)


def replace_surrogates_in_text(text: str) -> str:
    return HALF.sub("\ufffd", text)


def replace_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return replace_surrogates_in_text(value)
    if isinstance(value, dict):
        return {replace_surrogates(key): replace_surrogates(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [replace_surrogates(one) for one in value]
    return value
