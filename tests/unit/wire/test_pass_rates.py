"""pass@k and majorities over repeats: what counting each prefix by itself would give, to the digit, in one pass."""

from __future__ import annotations

import statistics
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gym.wire.metrics import ROLLOUT, TASK, pass_at_k
from gym.wire.pass_rates import pass_and_majority

SCORES = st.sampled_from([0.0, 1.0]) | st.floats(-2, 2)
REPLIES = st.lists(st.tuples(st.integers(0, 2), SCORES, st.sampled_from(["a", "b", "c", None])), max_size=24)


def reply(task: int, score: float, answer: str | None) -> dict[str, Any]:
    return {TASK: task, ROLLOUT: 0, "reward": score, "said": answer}


def by_definition(replies: list[dict[str, Any]]) -> dict[str, float]:
    groups: dict[int, list[tuple[float, str | None]]] = {}
    for one in replies:
        groups.setdefault(one[TASK], []).append((one["reward"], one["said"]))
    rates = {}
    for k in range(1, min(map(len, groups.values()), default=0) + 1):
        firsts = [group[:k] for group in groups.values()]
        rates[f"pass@{k}/accuracy"] = percent([passed(group, k) for group in groups.values()])
        rates[f"pass@1[avg-of-{k}]/accuracy"] = percent([statistics.fmean(score for score, _ in one) for one in firsts])
        rates[f"majority@{k}/accuracy"] = percent([majority(one) for one in firsts])
        silent = [[float(answer is None) for _, answer in one] for one in firsts]
        rates[f"pass@{k}/no_answer"] = rates[f"majority@{k}/no_answer"] = percent([min(one) for one in silent])
        rates[f"pass@1[avg-of-{k}]/no_answer"] = percent([statistics.fmean(one) for one in silent])
    return rates


def percent(values: list[float]) -> float:
    return 100.0 * statistics.fmean(values)


def passed(group: list[tuple[float, str | None]], k: int) -> float:
    scores = [score for score, _ in group]
    if all(score in (0.0, 1.0) for score in scores):
        return pass_at_k(len(scores), int(sum(scores)), k)
    return max(scores[:k])


def majority(group: list[tuple[float, str | None]]) -> float:
    counted = Counter(answer for _, answer in group if answer is not None)
    top = [answer for answer, count in counted.items() if count == max(counted.values())]
    return statistics.fmean(next(score for score, said in group if said == one) for one in top) if top else 0.0


@settings(deadline=None)
@given(REPLIES)
def test_rates_are_what_their_definition_says(found: list[tuple[int, float, str | None]]) -> None:
    replies = [reply(*one) for one in found]
    assert pass_and_majority(replies, answer="said") == by_definition(replies)


def test_thousands_of_repeats_are_counted_once() -> None:
    """Every prefix of every task by itself would be some hundred million steps."""
    replies = [reply(each % 5, float(each % 3 == 0), str(each % 7)) for each in range(15_000)]
    rates = pass_and_majority(replies, answer="said")
    assert len(rates) == 6 * 3_000
    assert rates["pass@3000/accuracy"] == 100.0
