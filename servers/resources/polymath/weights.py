"""Rates in which a task counts as much as its difficulty weighs: the figures that PolyMath publishes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gym.wire.metrics import TASK
from gym.wire.pass_rates import pass_and_majority


def weighted_rates(replies: Iterable[Mapping[str, Any]], *, answer: str, name: str) -> dict[str, float]:
    """`pass@k/name_weighted` and the others; a task without a weight weighs 1."""
    tasks: dict[Any, list[Mapping[str, Any]]] = {}
    for reply in replies:
        tasks.setdefault(reply.get(TASK, 0), []).append(reply)
    weights = [float(group[0].get("weight") or 1.0) for group in tasks.values()]
    rates = [pass_and_majority(group, answer=answer, name=name) for group in tasks.values()]
    everywhere = set.intersection(*map(set, rates)) if rates else set()
    return {
        f"{metric}_weighted": sum(map(float.__mul__, weights, (one[metric] for one in rates))) / sum(weights)
        for metric in sorted(everywhere)
        if metric.endswith(f"/{name}")
    }
