"""How often each row was solved, and the rows whose rate lies between: not too easy, not too hard.

A row's rate is the mean reward of its rollouts, as in `gym profile`. Of a row 200 bytes are held, never its text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from gym.data.line_source import Line
from gym.data.row_keys import asked_key
from gym.data.row_parsing import need_row
from gym.data.whole_files import whole_file
from gym.errors import UserError

RowDigest = Callable[[bytes], int]  # of a line of the data set, as rollouts name it


class PassRange(NamedTuple):
    """Both ends belong to it."""

    low: float
    high: float

    def holds(self, rate: float) -> bool:
        return self.low <= rate <= self.high


class Scored(NamedTuple):
    """One finished rollout: the digest of its row, if it has one, what the row asks, and the reward."""

    digest: int | None
    asked: bytes
    reward: float


@dataclass(slots=True)
class Rates:
    """Sums by the row's digest, and by what the row asks for rows that were written otherwise since."""

    by_digest: dict[int, tuple[int, float]]
    by_asked: dict[bytes, tuple[int, float]]
    rollouts: int = 0

    def of(self, digest: int, row: Mapping[str, Any]) -> float | None:
        count, total = self.by_digest.get(digest) or self.by_asked.get(asked_key(row)) or (0, 0.0)
        return total / count if count else None


Verdict = Literal["between", "too easy", "too hard", "without rollouts"]


@dataclass(slots=True)
class Filtered:
    counts: Counter[Verdict] = field(default_factory=Counter)
    kept: int = 0
    first_without: str = ""  # where the first row stands that no rollout is of


def parse_range(text: str) -> PassRange:
    """`0.1..0.9`."""
    low, dots, high = text.partition("..")
    try:
        found = PassRange(float(low), float(high))
    except ValueError:
        found = PassRange(1.0, 0.0)
    if not dots or not found.low <= found.high:
        raise UserError(f"--pass-rate {text}: expected LOW..HIGH", "--pass-rate 0.1..0.9")
    return found


def sum_rates(rollouts: Iterable[Scored]) -> Rates:
    rates = Rates({}, {})
    for one in rollouts:
        if one.digest is not None:
            rates.by_digest[one.digest] = _more(rates.by_digest.get(one.digest), one.reward)
        rates.by_asked[one.asked] = _more(rates.by_asked.get(one.asked), one.reward)
        rates.rollouts += 1
    return rates


def filter_rows(
    lines: Iterable[Line], rates: Rates, between: PassRange, output: Path, *, digest: RowDigest, keep_without: bool
) -> Filtered:
    """The rows between, as they stand; with `keep_without` also those that no rollout is of. None: no file."""
    found = Filtered()
    with suppress(_NothingKept), whole_file(output) as file:
        for line in lines:
            verdict = _judge(rates.of(digest(line.raw), need_row(line)), between)
            found.counts[verdict] += 1
            if verdict == "without rollouts" and not found.first_without:
                found.first_without = f"{line.file}:{line.number}"
            if verdict == "between" or (keep_without and verdict == "without rollouts"):
                file.write(line.raw + b"\n")
                found.kept += 1
        if not found.kept:
            raise _NothingKept
    return found


class _NothingKept(Exception):
    """Leaves the output as it was."""


def _judge(rate: float | None, between: PassRange) -> Verdict:
    if rate is None:
        return "without rollouts"
    if between.holds(rate):
        return "between"
    return "too easy" if rate > between.high else "too hard"


def _more(before: tuple[int, float] | None, reward: float) -> tuple[int, float]:
    count, total = before or (0, 0.0)
    return count + 1, total + reward
