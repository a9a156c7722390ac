"""Reads data sets in one pass: checks and measures every row, and indexes rows that are to be compared."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from gym.data.digest_index import DigestIndex
from gym.data.findings import Fold
from gym.data.row_parsing import PARAMS
from gym.data.row_rules import RowRules, check_files
from gym.data.scope import Placed, describe
from gym.data.statistics import Statistics, digest, user_messages
from gym.data.token_counts import Tokenizer
from gym.errors import UserError

Same = Literal["", "params", "row"]
_LINES = 40  # bits of a place that are the line's number; the data set's index is above them
_SHOWN = 30
_LONG_NUMBERS = re.compile(rb"[\d.]{16,}")


@dataclass
class Measured:
    """`statistics` has each row once, whatever num_repeats is."""

    placed: Placed
    statistics: Statistics
    stamp: tuple[int, int]
    dropped: array[int] = field(default_factory=lambda: array("Q"))  # lines that an earlier one is the same as

    @property
    def kept(self) -> int:
        """Rows that go into the output, repeats counted."""
        return (self.statistics.examples - len(self.dropped)) * self.placed.listed.data.num_repeats

    def keeps(self, line: int) -> bool:
        index = bisect_left(self.dropped, line)
        return index == len(self.dropped) or self.dropped[index] != line


class Survey:
    """One run over several data sets. `folder` holds digests meanwhile and is the caller's to remove."""

    def __init__(self, tokenizer: Tokenizer, rules: RowRules, folder: Path, *, dedup: Same = "") -> None:
        self.measured: list[Measured] = []
        self._tokenizer, self._rules, self._dedup = tokenizer, rules, dedup
        self._twins, self._prompts = (_index(folder / name) for name in ("twins", "prompts"))
        self._found = Fold()

    def measure(self, placed: Placed) -> Measured:
        """A bad row is noted; `refuse_findings` raises them all."""
        path = str(placed.path)
        one = Measured(placed, Statistics(self._tokenizer), stamp_of(placed.path))
        data, number = placed.listed.data, len(self.measured)
        self.measured.append(one)
        rules = RowRules(self._rules.agents, placed.agent, self._rules.max_line)
        for index, checked in enumerate(check_files([path], rules)):
            if checked.row is None:
                for problem in checked.problems:
                    self._found.add(problem)
            elif within(data.start_idx, data.end_idx, index):
                one.statistics.observe(checked.row)
                self._compare(checked.row, checked.line.raw, data.type, number << _LINES | checked.line.number)
        if not one.statistics.examples and not len(self._found):
            raise UserError(f"{path} holds no row for {describe(placed.listed)}", "look at the file and at start_idx")
        return one

    def refuse_findings(self) -> None:
        refuse_findings(self._found)

    def drop_twins(self) -> int:
        """Of rows that are the same only the first of a split stays; how many go."""
        drops: dict[int, list[int]] = {}
        for group in self._twins.groups():
            for place in group[1:]:
                drops.setdefault(place >> _LINES, []).append(place & (1 << _LINES) - 1)
        for number, lines in drops.items():
            self.measured[number].dropped = array("Q", sorted(lines))
        return sum(len(lines) for lines in drops.values())

    def find_leaks(self) -> Iterator[tuple[str, str]]:
        """A row of train and one of validation that ask the same, as file:line of both."""
        for group in self._prompts.groups():
            by_split: dict[str, int] = {}
            for place in group:
                by_split.setdefault(self.measured[place >> _LINES].placed.listed.data.type, place)
            if len(by_split) > 1:
                yield self._where(by_split["train"]), self._where(by_split["validation"])

    def _compare(self, row: dict[str, Any], raw: bytes, split: str, place: int) -> None:
        if self._dedup == "params":
            self._twins.add(digest([split, row[PARAMS]]), place)
        elif self._dedup:
            # Parsing keeps 15 digits of a number for sure: rows that differ in later ones are not the same.
            digits = b" ".join(_LONG_NUMBERS.findall(raw)).decode()
            self._twins.add(digest([split, row, digits]), place)
        if split in ("train", "validation"):
            self._prompts.add(_prompt_digest(row[PARAMS]), place)

    def _where(self, place: int) -> str:
        return f"{self.measured[place >> _LINES].placed.path}:{place & (1 << _LINES) - 1}"


def refuse_findings(found: Fold) -> None:
    """Nothing invalid is collated: one finding, and nothing is."""
    if not len(found):
        return
    lines = [str(folded) for folded in found]
    more = [f"… and {len(lines) - _SHOWN} findings of other kinds"] if len(lines) > _SHOWN else []
    raise UserError(
        "\n".join([*lines[:_SHOWN], *more, "Rows are bad, so nothing was written."]),
        "fix them, or write good and bad ones apart: gym data validate FILES --quarantine DIR",
    )


def stamp_of(path: Path) -> tuple[int, int]:
    """Another one means that the file was written in between."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def within(start: int | None, end: int | None, index: int) -> bool:
    return (start or 0) <= index and (end is None or index < end)


def _prompt_digest(params: dict[str, Any]) -> bytes:
    """Of what the user says; of all that is sent where no user says anything."""
    asked = user_messages(params)
    return digest(asked or params)


def _index(folder: Path) -> DigestIndex:
    folder.mkdir()
    return DigestIndex(folder)
