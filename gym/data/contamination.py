"""Finds rows of one data set in others, word for word or nearly: training data against what it is measured by.

The smaller side is in memory as hashed n-grams; the larger one is streamed. A row of the others is found in `A` by the
share of its own n-grams that the row of `A` has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from gym.data.line_source import STDIN, Line, no_rows, read_lines
from gym.data.ngram_index import NgramIndex
from gym.data.ngrams import Grams, choose_grams, make_grams
from gym.data.row_parsing import PARAMS, need_row
from gym.data.statistics import user_messages

MAX_LISTED = 1000


@dataclass(frozen=True, slots=True)
class NearRules:
    size: int = 13  # words of an n-gram
    share: float = 0.5  # from which on a row is nearly another


class Match(NamedTuple):
    """A row of `A` and the row of another file that it is most like."""

    row: str  # file:line
    other: str
    share: float
    exact: bool


@dataclass(slots=True)
class Overlap:
    """The list is cut at a thousand, the counts are not."""

    rows: int = 0
    others: int = 0
    exact: int = 0
    near: int = 0
    without_text: int = 0  # rows of either side that have no user message with a word
    by_file: Counter[str] = field(default_factory=Counter)
    matches: list[Match] = field(default_factory=list)

    @property
    def found(self) -> int:
        return self.exact + self.near

    def add(self, match: Match) -> None:
        self.exact += match.exact
        self.near += not match.exact
        self.by_file[match.other.rpartition(":")[0]] += 1
        if len(self.matches) < MAX_LISTED:
            self.matches.append(match)


def find_overlap(
    files: Sequence[str], others: Sequence[str], rules: NearRules, *, clean: BinaryIO | None = None
) -> Overlap:
    """Rows of `files` that stand in `others`; `clean` gets all other rows of `files`, as they are."""
    found = Overlap()
    if STDIN in files or (STDIN not in others and size_of(files) >= size_of(others)):
        _stream_rows(files, _index_others(others, rules, found), rules, found, clean)
    else:
        _stream_others(files, others, rules, found, clean)
    if not found.rows or not found.others:
        raise no_rows(others if found.rows else files)
    return found


def size_of(files: Iterable[str]) -> int:
    return sum(Path(file).stat().st_size for file in files)


def _index_others(others: Sequence[str], rules: NearRules, found: Overlap) -> NgramIndex:
    index = NgramIndex()
    for line, grams in _read(others, rules, found):
        found.others += 1
        index.add(line, grams, chosen=True)
    index.close()
    return index


def _stream_rows(
    files: Sequence[str], index: NgramIndex, rules: NearRules, found: Overlap, clean: BinaryIO | None
) -> None:
    for line, grams in _read(files, rules, found):
        found.rows += 1
        match = _best(line, grams, index, rules) if grams else None
        if match:
            found.add(match)
        elif clean:
            clean.write(line.raw + b"\n")


def _best(line: Line, grams: Grams, index: NgramIndex, rules: NearRules) -> Match | None:
    where = f"{line.file}:{line.number}"
    for row in index.texts.rows(grams.text):
        return Match(where, index.where(row), 1.0, exact=True)
    shares = ((hits / index.sizes[row], -row) for row, hits in index.grams.counts(grams.all).items())
    share, row = max(shares, default=(0.0, 0))
    return Match(where, index.where(-row), round(share, 4), exact=False) if share >= rules.share else None


def _stream_others(
    files: Sequence[str], others: Sequence[str], rules: NearRules, found: Overlap, clean: BinaryIO | None
) -> None:
    """The other way round, where `files` are the smaller side; to write the clean ones they are read twice."""
    index = NgramIndex()
    for line, grams in _read(files, rules, found):
        found.rows += 1
        index.add(line, grams, chosen=False)
    index.close()
    best: dict[int, Match] = {}
    for line, grams in _read(others, rules, found):
        found.others += 1
        for row, match in _matches(line, grams, index, rules) if grams else ():
            if row not in best or (match.exact, match.share) > (best[row].exact, best[row].share):
                best[row] = match
    for row in sorted(best):
        found.add(best[row])
    if clean:
        clean.writelines(line.raw + b"\n" for row, line in enumerate(read_lines(files)) if row not in best)


def _matches(line: Line, grams: Grams, index: NgramIndex, rules: NearRules) -> Iterator[tuple[int, Match]]:
    """Every row of the index that this row of the others stands in."""
    other = f"{line.file}:{line.number}"
    same = index.texts.rows(grams.text)
    for row in same:
        yield row, Match(index.where(row), other, 1.0, exact=True)
    chosen = choose_grams(grams.all) - index.common
    for row, hits in index.grams.counts(chosen).items():
        if hits >= rules.share * len(chosen) and row not in same:
            yield row, Match(index.where(row), other, round(hits / len(chosen), 4), exact=False)


def _read(files: Iterable[str], rules: NearRules, found: Overlap) -> Iterator[tuple[Line, Grams | None]]:
    for line in read_lines(files):
        grams = make_grams("\n".join(user_messages(need_row(line)[PARAMS])), rules.size)
        found.without_text += grams is None
        yield line, grams
