"""Adds fields to a JSON object without taking it apart: bodies of 200 KB pass through at the cost of a copy."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, Self

import orjson
from pydantic_core import from_json

from gym.wire.json_text import write_any_json, write_json
from gym.wire.pieces import Body, to_body
from gym.wire.unread import holds_unread, write_pieces

SHORT: Final = 16 * 1024  # copying so much twice is faster than a view of it
ANYTHING = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS


class WrittenList:
    """A JSON list that only grows: each value is written once, and copied from then on."""

    def __init__(self) -> None:
        self._text = bytearray()
        self._count = 0

    def up_to(self, values: list[Any]) -> Self:
        """With all of `values`, of which it has the first ones already."""
        if new := values[self._count :]:
            self._text += (b"," if self._text else b"") + write_json(new)[1:-1]
            self._count = len(values)
        return self

    def __bool__(self) -> bool:
        return bool(self._text)

    def write_into(self, fields: Mapping[str, Any], name: str) -> bytes:
        """The object with the list as this field, by one copy: more of them cost more than to write it all again."""
        names = list(fields)
        at = names.index(name) if name in fields else len(names)
        head = write_json({key: fields[key] for key in names[:at]})[1:-1]
        tail = write_json({key: fields[key] for key in names[at + 1 :]})[1:-1]
        first = (b"{", head, b"," if head else b"", write_json(name), b":[")
        return b"".join((*first, self._text, b"]", b"," if tail else b"", tail, b"}"))


def splice(body: bytes, fields: Mapping[str, Any], *, keys: Collection[str], end: bytes = b"") -> bytes:
    """`body` with `fields` added; `keys` are its top-level keys, so that one that is there already is replaced.

    `end` follows the object.
    """
    if not fields:
        return body + end
    if not fields.keys().isdisjoint(keys):
        # Not orjson: it would round integers beyond 64 bits.
        kept = {name: value for name, value in from_json(body).items() if name not in fields}
        return splice_raw(write_any_json(kept), _write_fields(fields), empty=not kept, end=end)
    return splice_raw(body, _write_fields(fields), empty=not keys, end=end)


def _write_fields(fields: Mapping[str, Any]) -> bytes:
    """What allows for anything takes 3.3 us for what is 1.3 without, so it is for what needs it."""
    try:
        return orjson.dumps(fields)
    except TypeError:
        return write_json(fields, option=ANYTHING)


def splice_pieces(body: bytes, fields: Mapping[str, Any], *, keys: Collection[str], end: bytes = b"") -> Body:
    """`splice`, and `end` behind it; what is long is not put together, be it the body or arrays in the fields."""
    if not fields or not fields.keys().isdisjoint(keys) or (len(body) < SHORT and not holds_unread(fields)):
        return splice(body, fields, keys=keys, end=end)
    first, *more = write_pieces(fields, option=ANYTHING)
    brace = len(body.rstrip()) - 1
    return to_body((memoryview(body)[:brace], b"," if keys else b"", memoryview(first)[1:], *more, end))


def splice_raw(body: bytes, extra: bytes, *, empty: bool = False, end: bytes = b"") -> bytes:
    """Two JSON objects as one. The caller knows that they share no key and whether the first one is empty."""
    last, comma = body.rfind(b"}"), b"" if empty else b","
    if len(body) < SHORT:
        return b"".join((body[:last], comma, extra[1:], end))
    # One copy: each one more of 3 MB is 1.5 ms, most of it the kernel's for pages that were not used before.
    return b"".join((memoryview(body)[:last], comma, memoryview(extra)[1:], end))
