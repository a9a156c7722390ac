"""pass@k, the mean of k tries, majority@k, their spread over runs and their confidence intervals, from columns.

Names and scale (per cent) are the contract's; `/ci_low` and `/ci_high` behind a name are ours. A rollout takes 32
bytes, and 8 more for each of its numbers.
"""

from __future__ import annotations

import hashlib
import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gym.collect.study.estimates import MAX_DRAWN, Sample
from gym.wire.deep_values import write_sorted
from gym.wire.metrics import ROLLOUT, TASK, describe_columns, numbers
from gym.wire.pass_rates import Try, pass_and_majority

ANSWERS = ("extracted_answer", "predicted_answer", "model_answer")
_NONE = -1
_MASK = (1 << 62) - 1
Pattern = tuple[tuple[float, ...], tuple[int | None, ...]]  # rewards of a task's tries, numbers of their answers


class Tries:
    """The reward and the answer of every rollout of one agent."""

    def __init__(self) -> None:
        self.tasks = array("q")
        self.repeats = array("q")
        self.rewards = array("d")
        self._answers = array("q")
        self._names: dict[str, int] = {}
        self._answer_field = ""

    def __len__(self) -> int:
        return len(self.rewards)

    def add(self, fields: Mapping[str, Any], reward: float) -> None:
        task = fields.get(TASK, 0)
        self.tasks.append(task if isinstance(task, int) else self._names.setdefault(str(task), -1 - len(self._names)))
        repeat = fields.get(ROLLOUT)
        self.repeats.append(repeat if isinstance(repeat, int) else len(self.rewards))
        self.rewards.append(reward)
        self._answers.append(self._answer_of(fields))

    @property
    def has_answers(self) -> bool:
        return bool(self._answer_field)

    def groups(self) -> Iterator[tuple[int, list[int]]]:
        """(task, its rollouts' places in the order of their repeats), task by task."""
        order = sorted(range(len(self)), key=self.repeats.__getitem__)
        order.sort(key=self.tasks.__getitem__)
        start = 0
        for end in range(1, len(order) + 1):
            if end == len(order) or self.tasks[order[end]] != self.tasks[order[start]]:
                yield self.tasks[order[start]], order[start:end]
                start = end

    def patterns(self) -> Iterator[tuple[Pattern, int]]:
        """The rewards and answers of a task, and how many tasks have the same. Few tasks come one by one, in order."""
        if len(self) == len(set(self.tasks)):
            found: Iterator[Pattern] = (
                ((reward,), (None if answer == _NONE else 0,))
                for reward, answer in zip(self.rewards, self._answers, strict=True)
            )
        else:
            found = (self._pattern(places) for _, places in self.groups())
        if len(set(self.tasks)) <= MAX_DRAWN:
            yield from ((one, 1) for one in found)
        else:
            yield from Counter(found).items()

    def tries(self, places: Sequence[int]) -> list[Try]:
        return [Try(self.rewards[place], self._answer(place)) for place in places]

    def _pattern(self, places: Sequence[int]) -> Pattern:
        """Which answers are equal matters, and not what they are."""
        numbers: dict[int, int] = {}
        answers = map(self._answer, places)
        return (
            tuple(self.rewards[place] for place in places),
            tuple(None if one is None else numbers.setdefault(one, len(numbers)) for one in answers),
        )

    def _answer(self, place: int) -> int | None:
        answer = self._answers[place]
        return None if answer == _NONE else answer

    def _answer_of(self, fields: Mapping[str, Any]) -> int:
        """62 bits of the answer's digest. The field is the first of the known ones that a rollout has."""
        if not self._answer_field:
            self._answer_field = next((name for name in ANSWERS if name in fields), "")
        given = fields.get(self._answer_field) if self._answer_field else None
        if given is None:
            return _NONE
        text = given if isinstance(given, str) else write_sorted(given).decode()
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") & _MASK


class NumberTable(Tries):
    """All rollouts of one agent: every numeric field is a column, with NaN where a rollout lacks it."""

    def __init__(self) -> None:
        super().__init__()
        self.columns: dict[str, array[float]] = {}

    def add(self, fields: Mapping[str, Any], reward: float) -> None:
        count = len(self)
        for name, value in numbers(fields).items():
            column = self.columns.get(name)
            if column is None:
                column = self.columns[name] = array("d", [math.nan]) * count
            column.extend([math.nan] * (count - len(column)))
            column.append(value)
        super().add(fields, reward)

    def described(self) -> dict[str, float]:
        described: dict[str, float] = {}
        for name, column in self.columns.items():
            described |= describe_columns({name: array("d", (value for value in column if value == value))})
        return described

    def at(self, place: int) -> dict[str, float]:
        found = ((name, column[place]) for name, column in self.columns.items() if place < len(column))
        return {name: value for name, value in found if value == value}


def extra_metrics(tries: Tries, *, name: str = "accuracy") -> dict[str, float]:
    """For each k up to the fewest repeats that any task has; nothing without rollouts."""
    max_k = min(Counter(tries.tasks).values(), default=0)
    samples: defaultdict[str, Sample] = defaultdict(Sample)
    runs = [Sample() for _ in range(max_k)]
    spreads = [Sample() for _ in range(2, max_k + 1)]  # of the first 2, 3, ... repeats of a task
    for pattern, times in tries.patterns():
        rates = _task_metrics([*map(Try, *pattern)], max_k, name, answers=tries.has_answers)
        for metric, value in rates.items():
            samples[metric].add(value, times)
        scores = [100.0 * score for score in pattern[0][:max_k]]
        for run, score in zip(runs, scores, strict=True):
            run.add(score, times)
        for spread, deviation in zip(spreads, _deviations(scores), strict=True):
            spread.add(deviation, times)
    metrics = {metric: sample.mean for metric, sample in samples.items()}
    metrics |= _over_runs([run.mean for run in runs], spreads, name)
    return metrics | _intervals(samples, max_k)


def _task_metrics(group: Sequence[Try], max_k: int, name: str, *, answers: bool) -> dict[str, float]:
    """One task's share of every metric."""
    replies = ({TASK: 0, "reward": one.score, "answer": one.answer} for one in group)
    rates = pass_and_majority(replies, answer="answer" if answers else "", name=name)
    return rates if len(group) == max_k else {key: value for key, value in rates.items() if _k_of(key) <= max_k}


def _deviations(values: Sequence[float]) -> Iterator[float]:
    """The standard deviation of the first two, the first three, and so on: no value is counted twice."""
    growing = Sample()
    for value in values:
        growing.add(value)
        if growing.count > 1:
            yield growing.deviation


def _over_runs(means: Sequence[float], spreads: Sequence[Sample], name: str) -> dict[str, float]:
    """How far whole runs lie apart, a run being the first repeat of every task, the second, and so on."""
    metrics: dict[str, float] = {}
    for k, (spread, apart) in enumerate(zip(spreads, _deviations(means), strict=True), 2):
        base = f"pass@1[avg-of-{k}]/{name}"
        metrics[f"{base}/std_dev_across_runs"] = apart
        metrics[f"{base}/std_err_across_runs"] = apart / k**0.5
        metrics[f"{base}/avg_sample_std_dev"] = spread.mean
    return metrics


def _intervals(samples: Mapping[str, Sample], max_k: int) -> dict[str, float]:
    """Over tasks. For the powers of two among the ks, and the greatest: the others would add little."""
    metrics: dict[str, float] = {}
    for metric, sample in samples.items():
        k = _k_of(metric)
        if metric.endswith("/no_answer") or not (k == max_k or k & (k - 1) == 0):
            continue
        if (interval := sample.interval) is not None:
            metrics[f"{metric}/ci_low"], metrics[f"{metric}/ci_high"] = interval
    return metrics


def _k_of(metric: str) -> int:
    """`pass@1[avg-of-4]/accuracy` -> 4, `majority@8/accuracy` -> 8."""
    head = metric.partition("/")[0]
    return int(head.rpartition("-")[2].rstrip("]") if "[" in head else head.rpartition("@")[2])
