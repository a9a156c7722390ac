"""Bodies as bytes: texts that are not Unicode, as a model's tokens may spell them, and bytes that are not UTF-8."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from gym.wire import items

MARK: Final = "here-goes-what-is-no-text"
LONE: Final = (rb"\ud800", rb"\udfff gravel", rb"gravel \ude00\ud83d")  # halves of a pair, and a pair the wrong way
NO_UTF8: Final = (b"\xff\xfe", b"gravel \x80", b"\xc3", b"\xed\xa0\x80")  # the last is a half in UTF-8's manner


class RawBody(NamedTuple):
    what: str
    place: str
    body: bytes
    right: bool = False  # a right answer with something behind it: it may be paid for


def lone_surrogates(request: Mapping[str, Any]) -> Iterator[RawBody]:
    return _bodies(request, LONE)


def no_utf8(request: Mapping[str, Any]) -> Iterator[RawBody]:
    return _bodies(request, NO_UTF8)


def _bodies(request: Mapping[str, Any], pieces: tuple[bytes, ...]) -> Iterator[RawBody]:
    for piece in pieces:
        for place, output, right in _outputs(request["response"]["output"]):
            body = json.dumps({**request, "response": {**request["response"], "output": output}})
            yield RawBody(f"{piece!r} {place}", place, body.encode().replace(MARK.encode(), piece), right)


def _outputs(right: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]], bool]]:
    yield "as a text", [items.message(MARK)], False
    yield "as a thought", [items.reasoning(MARK)], False
    yield "as arguments", [items.function_call("no_such_tool", json.dumps({"a": MARK}))], False
    yield "after the right answer", [*right, items.message(MARK)], True
