"""pass@k, the mean of k tries and majority@k over repeats of a task, in per cent, under the contract's names."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gym.wire.metrics import TASK


class Try(NamedTuple):
    score: float
    answer: Any = None  # what majorities are counted over; None: without an answer


def pass_and_majority(
    replies: Iterable[Mapping[str, Any]], *, answer: str = "", name: str = "accuracy"
) -> dict[str, float]:
    """For each k up to the fewest repeats that any task has; `answer` is the field that majorities are counted over."""
    tasks: dict[Any, list[Try]] = {}
    for reply in replies:
        given = reply.get(answer) if answer else None
        tasks.setdefault(reply.get(TASK, 0), []).append(Try(float(reply.get("reward") or 0.0), given))
    groups = [_FirstTries(tries) for tries in tasks.values()]
    rates: dict[str, float] = {}
    for k in range(1, min(map(len, tasks.values()), default=0) + 1):
        for group in groups:
            group.take()
        rates[f"pass@{k}/{name}"] = _percent([group.passed for group in groups])
        rates[f"pass@1[avg-of-{k}]/{name}"] = _percent([group.mean for group in groups])
        if answer:
            rates[f"majority@{k}/{name}"] = _percent([group.majority for group in groups])
            rates[f"pass@{k}/no_answer"] = _percent([float(group.silent == k) for group in groups])
            rates[f"pass@1[avg-of-{k}]/no_answer"] = _percent([group.silent / k for group in groups])
            rates[f"majority@{k}/no_answer"] = rates[f"pass@{k}/no_answer"]
    return rates


def pass_and_majority_by(
    field: str, replies: Iterable[Mapping[str, Any]], *, answer: str = "", name: str = "accuracy"
) -> dict[str, float]:
    """The same for every value of a field apart: `value/pass@1/accuracy`."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for reply in replies:
        if reply.get(field) is not None:
            groups.setdefault(str(reply[field]), []).append(reply)
    rates = {value: pass_and_majority(group, answer=answer, name=name) for value, group in groups.items()}
    return {f"{value}/{metric}": rate for value, group in rates.items() for metric, rate in group.items()}


class _FirstTries:
    """The first k tries of a task, one more with each `take`: what held of the former ones is not counted again, for
    a task may have thousands."""

    def __init__(self, tries: Sequence[Try]) -> None:
        self._left = iter(tries)
        self._taken = 0
        self._wrong = WrongDraws(tries) if all(one.score in (0.0, 1.0) for one in tries) else None
        self._sum = ExactSum()
        self._best = -math.inf
        self._counts: Counter[str] = Counter()
        self._first: dict[str, float] = {}  # the score of each answer where it was first given
        self._given: dict[int, _Given] = {}  # by how often
        self.silent = 0  # without an answer

    def take(self) -> None:
        score, answer = next(self._left)
        self._taken += 1
        self._sum.add(score)
        self._best = max(self._best, score)
        if self._wrong is not None:
            self._wrong.draw()
        if answer is None:
            self.silent += 1
            return
        self._count(str(answer), score)

    def _count(self, answer: str, score: float) -> None:
        first = self._first.setdefault(answer, score)
        often = self._counts[answer]
        if often and not self._given[often].add(-1, -first):
            del self._given[often]  # most are passed by: the greatest is looked for among few
        self._counts[answer] = often + 1
        self._given.setdefault(often + 1, _Given()).add(1, first)

    @property
    def passed(self) -> float:
        """Unbiased over all tries where each is right or wrong; else the best of the first k."""
        return self._best if self._wrong is None else 1.0 - self._wrong.chance

    @property
    def mean(self) -> float:
        return self._sum.value / self._taken

    @property
    def majority(self) -> float:
        """The score of the answer given most often; equal shares are averaged; without any answer it is 0."""
        if not self._given:
            return 0.0
        most_given = self._given[max(self._given)]
        return most_given.scores.value / most_given.count


class _Given:
    """Answers that were given equally often."""

    __slots__ = ("count", "scores")

    def __init__(self) -> None:
        self.count = 0
        self.scores = ExactSum()

    def add(self, count: int, score: float) -> int:
        """How many there are then."""
        self.count += count
        self.scores.add(score)
        return self.count


class WrongDraws:
    """The chance that k tries drawn from all are all wrong, k growing by one: 1 - pass@k, from whole numbers."""

    def __init__(self, tries: Sequence[Try]) -> None:
        self._count = len(tries)
        self._wrong = sum(one.score == 0.0 for one in tries)
        self._drawn = 0
        self._ways = self._all = 1  # to draw so many of the wrong ones, and of all

    def draw(self) -> None:
        self._drawn += 1
        self._ways = self._ways * (self._wrong - self._drawn + 1) // self._drawn
        self._all = self._all * (self._count - self._drawn + 1) // self._drawn

    @property
    def chance(self) -> float:
        return self._ways / self._all


class ExactSum:
    """A sum that grows and shrinks without rounding, as `math.fsum` has it of all its terms."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[float] = []

    def add(self, value: float) -> None:
        parts, kept = self._parts, 0
        for part in parts:
            large, small = (part, value) if abs(value) < abs(part) else (value, part)
            value = large + small
            rest = small - (value - large)
            if rest:
                parts[kept] = rest
                kept += 1
        parts[kept:] = [value]

    @property
    def value(self) -> float:
        return math.fsum(self._parts)


def _percent(values: Sequence[float]) -> float:
    return 100.0 * (math.fsum(values) / len(values))
