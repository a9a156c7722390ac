"""A Responses request that says what the rollout's last one said, and more: only the new items are parsed.

An agent sends the whole conversation again at each step: for 200 steps, parsing and checking it was half of what its
model server did. The last request of a rollout is kept as bytes, and the next one compared with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, SupportsIndex

import orjson

from gym.wire.json_text import write_json
from gym.wire.unread import reading

MIN_BODY: Final = 4 * 1024  # a shorter one is parsed as fast as it is compared
MAX_NEW: Final = 16 * 1024  # bytes: longer items may have arrays that stay unread, so that all of it is read as ever
ROOM: Final = 32 << 20  # bytes of all requests kept
MAX_KEPT: Final = 10_000
FIELD: Final = b'"input":['  # as orjson writes it; no text of JSON holds it, where a quote has a backslash before it

Body = dict[str, Any]


class GrownInput(list[Any]):
    """Items of which the first ones are JSON still. orjson writes those as they came; who looks at one parses it.

    C code that reads a list past its methods finds an `orjson.Fragment` there.
    """

    __slots__ = ("_known",)

    def __init__(self, known: bytes, new: list[Any]) -> None:
        super().__init__((orjson.Fragment(known), *new))
        self._known = known

    def read(self) -> None:
        """From here on it is a list like any other."""
        if self._known:
            known, self._known = orjson.loads(b"[%b]" % self._known), b""
            super().__setitem__(slice(0, 1), known)

    def __iter__(self) -> Iterator[Any]:
        self.read()
        return super().__iter__()

    def __len__(self) -> int:
        self.read()
        return super().__len__()

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        self.read()
        return super().__getitem__(index)

    def __reduce__(self) -> Any:
        return list, (list(self),)


for _name in (
    *("__add__", "__contains__", "__delitem__", "__eq__", "__iadd__", "__mul__", "__ne__", "__repr__", "__reversed__"),
    *(
        "__setitem__",
        "append",
        "clear",
        "copy",
        "count",
        "extend",
        "index",
        "insert",
        "pop",
        "remove",
        "reverse",
        "sort",
    ),
):
    setattr(GrownInput, _name, reading(getattr(list, _name)))


class _LastRequest(NamedTuple):
    raw: bytes
    begin: int  # of the first item
    end: int  # behind the last one
    items: int
    fields: Body  # with nothing for `input`, at its place


class LastRequests:
    """Of a model server's rollouts, by id. A rollout's second request is the first that is kept: most have one."""

    def __init__(self, room: int = ROOM) -> None:
        self._kept: dict[str, _LastRequest | None] = {}  # ordered by last use
        self._room = room
        self._size = 0

    def grow(self, key: str, raw: bytes, check: Callable[[list[Any], int], None]) -> Body | None:
        """What `raw` says, if it is the last request with more items behind its input. None: it is to be parsed.

        `check` is given the new items, and how many there were.
        """
        last = self._kept.get(key)
        if last is None:
            return None
        end = len(raw) - (len(last.raw) - last.end)
        if not last.end <= end <= last.end + MAX_NEW:
            return None
        if not raw.startswith(memoryview(last.raw)[: last.end]) or not raw.endswith(memoryview(last.raw)[last.end :]):
            return None
        new = _read_more(raw[last.end : end])
        if new is None:
            return None
        check(new, last.items)
        self._put(key, _LastRequest(raw, last.begin, end, last.items + len(new), last.fields))
        return {**last.fields, "input": GrownInput(raw[last.begin : last.end], new)}

    def keep(self, key: str, raw: bytes, body: Body) -> None:
        """`body` is what `raw` says. Kept where it is known which bytes are its input: it is as orjson writes it."""
        self._put(key, _cut(raw, body) if key in self._kept else None)

    def _put(self, key: str, kept: _LastRequest | None) -> None:
        self._drop(key)
        self._kept[key] = kept
        self._size += len(kept.raw) if kept else 0
        while self._size > self._room or len(self._kept) > MAX_KEPT:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: str) -> None:
        dropped = self._kept.pop(key, None)
        self._size -= len(dropped.raw) if dropped else 0


def _read_more(text: bytes) -> list[Any] | None:
    """The values of `,a,b`; None where it is anything else. What is a list by itself is more of one."""
    if not text:
        return []
    if text[:1] != b",":
        return None
    try:
        values = orjson.loads(b"[%b]" % text[1:])
    except orjson.JSONDecodeError:
        return None
    return values or None  # a comma and nothing behind it is an error


def _cut(raw: bytes, body: Body) -> _LastRequest | None:
    items = body.get("input")
    if not isinstance(items, list) or not items or raw.count(FIELD) != 1 or write_json(body) != raw:
        return None
    begin = raw.index(FIELD) + len(FIELD)
    text = write_json(items)[1:-1]
    if not raw.startswith(text, begin):
        return None
    return _LastRequest(raw, begin, begin + len(text), len(items), {**body, "input": None})
