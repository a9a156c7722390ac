"""Comparisons of runs. Each request counts for a moment, so a page that is closed leaves no work behind.

One comparison is counted at a time, for each takes memory. The others wait until it is finished, or abandoned.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from gym.collect.study.comparison import By
from gym.collect.study.in_steps import Steps, Unfinished
from gym.console.compare.run_pairs import Asked, choose, compare_sides_in_steps, shared_components
from gym.console.compare.run_side import RunSide, RunSnapshot, read_side
from gym.console.viewer.run_files import Run, RunFiles
from gym.errors import UserError

MOMENT = 0.08  # seconds that one question may count
IDLE = 3.0  # after so many seconds without a question a comparison gives way to another
MAX_KEPT = 8  # pairs

Pair = dict[str, Any]
PairKey = tuple[RunSnapshot, RunSnapshot, Asked]
Question = tuple[tuple[str, ...], Asked]


class Comparisons:
    """May be asked from several threads."""

    def __init__(self, files: RunFiles, clock: Callable[[], float] = time.monotonic) -> None:
        self._files = files
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[PairKey, Pair] = {}
        self._now: _Comparison | None = None
        self._asked_at = 0.0

    def ask(self, runs: Sequence[Run], by: By | None, flip_at: float) -> dict[str, Any]:
        """`pairs`: those that are whole. `counting`: how far the others are, None where all are whole."""
        border = self._clock() + MOMENT
        with self._files.lock:
            snapshots = [RunSnapshot.of(run) for run in runs]
        mine = self._lock.acquire(timeout=MOMENT)
        if not mine:
            return _waiting(snapshots, [])
        try:
            return self._ask(snapshots, Asked(by, flip_at), lambda: self._clock() > border)
        finally:
            self._lock.release()

    def _ask(self, snapshots: Sequence[RunSnapshot], asked: Asked, is_over: Callable[[], bool]) -> dict[str, Any]:
        self._forget()
        found = [self._kept[key] for other in snapshots[1:] if (key := (snapshots[0], other, asked)) in self._kept]
        question = tuple(one.run.name for one in snapshots), asked
        if len(found) == len(snapshots) - 1:
            return {"pairs": found, "counting": None}
        if self._now is None or (self._now.question != question and self._clock() - self._asked_at > IDLE):
            self._now = _Comparison(question, snapshots, self._kept, self._files.lock)
        if self._now.question != question:
            return _waiting(snapshots, found)
        self._asked_at = self._clock()
        return self._go_on(self._now, is_over)

    def _go_on(self, now: _Comparison, is_over: Callable[[], bool]) -> dict[str, Any]:
        self._now = None  # also where it fails
        whole = now.work.go_on(is_over)
        while len(self._kept) > MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        if whole is not None:
            return {"pairs": whole, "counting": None}
        self._now = now
        counting = {"counted": now.counted, "of": _lines(now.snapshots), "waits": False}
        return {"pairs": list(now.pairs), "counting": counting}

    def _forget(self) -> None:
        """Drops what was counted of a file that was rewritten."""
        for key in [key for key in self._kept if not (key[0].stands() and key[1].stands())]:
            del self._kept[key]
        if self._now is not None and not all(one.stands() for one in self._now.snapshots):
            self._now = None


class _Comparison:
    """The first run against the others, as they are when it begins: runs that grow all the time are compared too."""

    def __init__(
        self,
        question: Question,
        snapshots: Sequence[RunSnapshot],
        kept: dict[PairKey, Pair],
        lock: AbstractContextManager[Any],
    ) -> None:
        self.question = question
        self.snapshots = snapshots
        self.pairs: list[Pair] = []
        self.work = Unfinished(self._compare())
        self._kept = kept
        self._lock = lock
        self._firsts: dict[By, RunSide | UserError] = {}
        self._read = 0  # lines
        self._reading: RunSide | None = None

    @property
    def counted(self) -> int:
        return min(self._read + (self._reading.seen if self._reading else 0), _lines(self.snapshots))

    def _compare(self) -> Steps[list[Pair]]:
        for other in self.snapshots[1:]:
            key = self.snapshots[0], other, self.question[1]
            if key not in self._kept:
                self._kept[key] = yield from self._pair(other)
            self.pairs.append(self._kept[key])
        return self.pairs

    def _pair(self, other: RunSnapshot) -> Steps[Pair]:
        """One pair that cannot be compared does not hide the others."""
        before, asked = self.snapshots[0], self.question[1]
        try:
            by = choose(before, other, asked.by)
            first = yield from self._first(by)
            second = yield from self._side(other, by, shared_components(before, other))
            second.rollouts.clear()  # memory: that none is there twice is known by now
            compared = yield from compare_sides_in_steps(first, second, Asked(by, asked.flip_at), self._lock)
        except UserError as error:
            return {"after": other.run.name, "error": str(error)}
        return {"after": other.run.name, **compared}

    def _first(self, by: By) -> Steps[RunSide]:
        """Counted once for all the others; so is what is wrong with it said of each."""
        if by not in self._firsts:
            names = {name for other in self.snapshots[1:] for name in shared_components(self.snapshots[0], other)}
            try:
                self._firsts[by] = yield from self._side(self.snapshots[0], by, sorted(names))
            except UserError as error:
                self._firsts[by] = error
        found = self._firsts[by]
        if isinstance(found, UserError):
            raise found
        return found

    def _side(self, snapshot: RunSnapshot, by: By, names: Sequence[str]) -> Steps[RunSide]:
        side = self._reading = RunSide(snapshot)
        yield from read_side(side, by, names, self._lock)
        self._read, self._reading = self._read + side.seen, None
        return side


def _waiting(snapshots: Sequence[RunSnapshot], found: Sequence[Pair]) -> dict[str, Any]:
    return {"pairs": found, "counting": {"counted": 0, "of": _lines(snapshots), "waits": True}}


def _lines(snapshots: Sequence[RunSnapshot]) -> int:
    return sum(one.count for one in snapshots)
