"""Token ids and log-probs of items stay bytes until something reads them: a hop that does not look inside copies them.

A body is cut at the arrays of these fields, the rest is parsed as ever, and the items get their arrays back unread. Any
doubt (a string, a list or NaN in such an array, a field at another place) and the body is parsed whole.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson
from pydantic_core import from_json

from gym.wire.failures import FailureKind, RolloutError
from gym.wire.json_text import quick_find, read_json, write_json
from gym.wire.token_ids import TRIPLE

MIN_BODY: Final = 16 * 1024  # a shorter one is parsed as fast as it is searched
BLOCK: Final = 64 * 1024  # searched at a time: from the second search on it is in the processor's cache
PLACES: Final = ("output", "input")  # the fields of a reply or a request that have items
HOLDERS: Final = ("response", *PLACES)  # what such items are below, in a body or in a part of one
_FIELD: Final = re.compile(rb'"(?:%s)"[ \t\r\n]*:[ \t\r\n]*(?=\[)' % "|".join(TRIPLE).encode())
_USUAL: Final = b'"generation_token_ids"'  # the others do not come alone; a long word is found five times as fast
_RARE: Final = b"_token_ids"  # it begins with a letter that images never have
# In an array of numbers there is none of these: no string, so that the first `]` ends it; no NaN and no Infinity.
_DOUBTS: Final = (b'"', b"[", b"N", b"I")


class UnreadItem(dict[str, Any]):
    """An item with arrays that are parsed when they are asked for. orjson writes them as they came.

    C code that reads a dict past its methods finds an `orjson.Fragment` there: an error, and never a wrong list.
    """

    __slots__ = ("_kind", "_unread")

    def __init__(self, fields: dict[str, Any], unread: dict[str, bytes], kind: FailureKind) -> None:
        super().__init__(fields, **{name: orjson.Fragment(array) for name, array in unread.items()})
        self._unread = unread
        self._kind: FailureKind = kind

    @property
    def unread(self) -> Mapping[str, bytes]:
        return self._unread

    def read(self) -> None:
        """From here on it is a dict like any other."""
        unread, self._unread = self._unread, {}
        for name, array in unread.items():
            try:
                super().__setitem__(name, from_json(array, allow_inf_nan=False))
            except ValueError as error:
                raise RolloutError(self._kind, f"{name}: not JSON: {error}") from None

    def __getitem__(self, key: str) -> Any:
        if key in self._unread:
            self.read()
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        if key in self._unread:
            self.read()
        return super().get(key, default)

    def __iter__(self) -> Iterator[str]:  # `dict(item)` and `{**item}` copy past the methods of a dict that lacks it
        return super().__iter__()

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


def reading(method: Callable[..., Any]) -> Any:
    """The method of a dict or a list, of what has been read."""

    def read_first(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.read()
        return method(self, *args, **kwargs)

    return read_first


for _name in (
    *("__setitem__", "__delitem__", "__eq__", "__ne__", "__or__", "__ror__", "__ior__", "__repr__"),
    *("clear", "copy", "items", "pop", "popitem", "setdefault", "update", "values"),
):
    setattr(UnreadItem, _name, reading(getattr(dict, _name)))


class CutBody(NamedTuple):
    """`light` is the body with a mark in the place of each array."""

    light: bytes
    arrays: dict[str, bytes]  # by their marks

    @property
    def is_json(self) -> bool:
        """Of all arrays. One at a time: the numbers of all together take twice as long, in fresh memory."""
        try:
            for array in self.arrays.values():
                orjson.loads(array)
        except orjson.JSONDecodeError:
            return False
        return True

    def put_back(self, items: Any, kind: FailureKind) -> int:
        """Gives the items of a list their arrays, unread. How many arrays that were."""
        found = 0
        for index, item in enumerate(items if isinstance(items, list) else ()):
            if not isinstance(item, dict):
                continue
            held = {name: item.get(name) for name in TRIPLE}
            marks = {name: mark for name, mark in held.items() if isinstance(mark, str) and mark in self.arrays}
            if marks:
                items[index] = UnreadItem(item, {name: self.arrays[mark] for name, mark in marks.items()}, kind)
                found += len(marks)
        return found


def cut_arrays(body: bytes) -> CutBody | None:
    """None where there is nothing to cut, or a doubt."""
    if len(body) < MIN_BODY or not _has_field(body):
        return None
    pieces: list[bytes] = []
    arrays: dict[str, bytes] = {}
    secret, at = secrets.token_hex(8), 0  # no body can have a text that is taken for a mark
    while found := _FIELD.search(body, at):
        begin = found.end()
        end = 0 if body[found.start() - 1] == _BACKSLASH else _find_end(body, begin)
        if not end:
            return None
        mark = f"{secret}:{len(arrays)}"
        arrays[mark] = body[begin:end]
        pieces += (body[at:begin], f'"{mark}"'.encode())
        at = end
    if not arrays:
        return None
    return CutBody(b"".join((*pieces, body[at:])), arrays)


def read_with_items(body: bytes, kind: FailureKind) -> Any:
    """`read_json`, of a body whose items may have long arrays. `kind`: the failure when such an array is not JSON."""
    cut = cut_arrays(body)
    if cut is not None:
        try:
            parsed = orjson.loads(cut.light)
        except orjson.JSONDecodeError:
            parsed = None
        if isinstance(parsed, dict):
            put_back = sum(cut.put_back(parsed.get(place), kind) for place in PLACES)
            if put_back == len(cut.arrays):
                return parsed
    return read_json(body)


def write_pieces(value: Any, *, option: int | None = None) -> list[bytes]:
    """`write_json` of a reply, or of what holds one: the unread arrays of its items are pieces of their own."""
    arrays: list[bytes] = []
    secret = secrets.token_hex(8)  # no text in it can be taken for the mark of an array
    marked = _mark(value, secret, arrays)
    if not arrays:
        return [write_json(value, option=option)]
    parts: list[bytes] = re.split(rb'"%b:(\d+)"' % secret.encode(), write_json(marked, option=option))
    parts[1::2] = [arrays[int(number)] for number in parts[1::2]]
    return parts


def holds_unread(value: Any) -> bool:
    """Whether `write_pieces` would find an array to leave as it is."""
    if isinstance(value, list):
        return any(isinstance(one, UnreadItem) for one in value)
    if isinstance(value, dict):
        for name in HOLDERS:
            if name in value and holds_unread(value[name]):
                return True
    return False


def read_all(items: Any) -> Any:
    """The same items, none of them with an unread array."""
    if isinstance(items, list):
        for item in items:
            if isinstance(item, UnreadItem):
                item.read()
    return items


def _mark(value: Any, secret: str, arrays: list[bytes]) -> Any:
    """The same with a mark for each unread array, which is added to `arrays`."""
    if isinstance(value, UnreadItem):
        marks = {}
        for name, array in value.unread.items():
            marks[name] = f"{secret}:{len(arrays)}"
            arrays.append(array)
        return {name: marks.get(name, held) for name, held in dict.items(value)}
    if isinstance(value, list):
        return [_mark(one, secret, arrays) if isinstance(one, UnreadItem) else one for one in value]
    if isinstance(value, dict):
        return {**value, **{name: _mark(value[name], secret, arrays) for name in HOLDERS if name in value}}
    return value


def _has_field(body: bytes) -> bool:
    """Whether it is worth looking for arrays. Without the usual one none of the others comes."""
    found = quick_find(body, _RARE)
    return _USUAL in body if found is None else found


def _find_end(body: bytes, begin: int) -> int:
    """Behind the array of numbers that begins there; 0 where it has no end, or a doubt in it."""
    for at in range(begin + 1, len(body), BLOCK):
        end = body.find(b"]", at, at + BLOCK)
        stop = at + BLOCK if end < 0 else end
        if any(body.find(doubt, at, stop) >= 0 for doubt in _DOUBTS):
            return 0
        if end >= 0:
            return end + 1
    return 0


_BACKSLASH: Final = ord("\\")
