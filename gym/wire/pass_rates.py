"""pass@k, the mean of k tries and majority@k over repeats of a task, in per cent, under the contract's names."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gym.wire.metrics import TASK, pass_at_k


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
    groups = list(tasks.values())
    rates: dict[str, float] = {}
    for k in range(1, min(map(len, groups), default=0) + 1):
        rates[f"pass@{k}/{name}"] = _percent(_pass(group, k) for group in groups)
        rates[f"pass@1[avg-of-{k}]/{name}"] = _percent(_mean(one.score for one in group[:k]) for group in groups)
        if answer:
            rates |= _answer_rates(groups, k, name)
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


def _answer_rates(groups: Sequence[Sequence[Try]], k: int, name: str) -> dict[str, float]:
    silent = [[float(one.answer is None) for one in group[:k]] for group in groups]
    return {
        f"majority@{k}/{name}": _percent(_majority(group[:k]) for group in groups),
        f"pass@{k}/no_answer": _percent(min(group) for group in silent),
        f"pass@1[avg-of-{k}]/no_answer": _percent(_mean(group) for group in silent),
        f"majority@{k}/no_answer": _percent(min(group) for group in silent),
    }


def _pass(group: Sequence[Try], k: int) -> float:
    """Unbiased over all tries where each is right or wrong; else the best of the first k."""
    scores = [one.score for one in group]
    if all(score in (0.0, 1.0) for score in scores):
        return pass_at_k(len(scores), int(sum(scores)), k)
    return max(scores[:k])


def _majority(group: Sequence[Try]) -> float:
    """The score of the answer given most often; equal shares are averaged, and a group without answers is worth 0."""
    counted = Counter(str(one.answer) for one in group if one.answer is not None)
    if not counted:
        return 0.0
    top = max(counted.values())
    return _mean(_score_of(group, answer) for answer, count in counted.items() if count == top)


def _score_of(group: Sequence[Try], answer: str) -> float:
    return next(one.score for one in group if one.answer is not None and str(one.answer) == answer)


def _mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


def _percent(values: Iterable[float]) -> float:
    return 100.0 * _mean(values)
