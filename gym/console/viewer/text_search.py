"""Lines with a text in any of their values. A large file is searched a moment at a time; what was found is kept."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gym.console.viewer.columns import Columns
from gym.console.viewer.facts import parse_line
from gym.console.viewer.lines import LineFile

MOMENT: Final = 0.1  # seconds that one question may search
MAX_SEARCHES: Final = 4
_UNKNOWN, _NO, _YES = 0, 1, 2
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789 .,:;_-+*=()[]{}?!")  # what JSON writes as it is


@dataclass(slots=True)
class _Answers:
    columns: Columns  # of which file: a file that was read again has others
    known: bytearray = field(default_factory=bytearray)


class TextSearch:
    """What is known of one text."""

    def __init__(self, text: str) -> None:
        self._wanted = text.casefold()
        self._sieve = self._wanted.encode() if set(self._wanted) <= _PLAIN else b""
        self._files: dict[int, _Answers] = {}

    def filter(
        self, number: int, file: LineFile, indices: Sequence[int], is_over: Callable[[], bool]
    ) -> tuple[list[int], int]:
        """(those that say it, how many were not looked at)."""
        known = self._answers(number, file)
        missing = [index for index in indices if not known[index]]
        looked = 0
        if missing and not is_over():
            with file.path.open("rb", buffering=0) as stream:
                for index in missing:
                    known[index] = _YES if self._says(file.read_from(stream.fileno(), index)) else _NO
                    looked += 1
                    if is_over():
                        break
        return [index for index in indices if known[index] == _YES], len(missing) - looked

    def _answers(self, number: int, file: LineFile) -> bytearray:
        found = self._files.get(number)
        if found is None or found.columns is not file.columns:
            found = self._files[number] = _Answers(file.columns)
        found.known.extend(bytes(len(file) - len(found.known)))
        return found.known

    def _says(self, raw: bytes) -> bool:
        return (not self._sieve or self._sieve in raw.lower()) and _says(raw, self._wanted)


class TextSearches:
    """Of the last few texts."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._searches: OrderedDict[str, TextSearch] = OrderedDict()

    def begin(self, text: str, seconds: float = MOMENT) -> Callable[[int, LineFile, Sequence[int]], Any]:
        search = self._searches.pop(text, None) or TextSearch(text)
        self._searches[text] = search
        while len(self._searches) > MAX_SEARCHES:
            self._searches.popitem(last=False)
        border = self._clock() + seconds
        return lambda number, file, indices: search.filter(number, file, indices, lambda: self._clock() > border)


def _says(raw: bytes, wanted: str) -> bool:
    row, _ = parse_line(raw)
    if row is None:
        return wanted in raw.decode("utf-8", "replace").casefold()
    return any(wanted in text.casefold() for text in _texts(row))


def _texts(value: Any) -> Iterator[str]:
    """Every text in it, keys left out: `input` stands in each row."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
