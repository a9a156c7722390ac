"""Aggregates of verified rollouts under the contract's names: per task and per agent, over every numeric field."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from gym.wire.failures import RolloutError

TASK = "_ng_task_index"
ROLLOUT = "_ng_rollout_index"
_NOT_MEASURED = frozenset({TASK, ROLLOUT, "_ng_attempt_index"})

Numbers = dict[str, float]


def parse_replies(body: bytes) -> list[dict[str, Any]]:
    """The body of `/aggregate_metrics`."""
    try:
        parsed = orjson.loads(body or b"{}")
    except orjson.JSONDecodeError as error:
        raise RolloutError("row", f"body: not JSON: {error}") from None
    replies = parsed.get("verify_responses") if isinstance(parsed, dict) else None
    if not isinstance(replies, list) or not all(map(_is_reply, replies)):
        raise RolloutError("row", "verify_responses: a list of verify replies is needed")
    return replies


def aggregate(replies: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """`{group_level_metrics, agent_metrics, key_metrics}` of verify replies, as `/aggregate_metrics` answers."""
    by_task: dict[Any, list[tuple[Any, Numbers]]] = {}
    for reply in replies:
        tries = by_task.setdefault(reply.get(TASK, 0), [])
        tries.append((reply.get(ROLLOUT, len(tries)), numbers(reply)))
    expected = max((len(tries) for tries in by_task.values()), default=0)
    groups = [_group(task, tries, expected) for task, tries in by_task.items()]
    agent = describe(found for tries in by_task.values() for _, found in tries)
    return {
        "group_level_metrics": groups,
        "agent_metrics": agent,
        "key_metrics": {name: value for name, value in agent.items() if name.startswith("mean/")},
    }


def numbers(reply: Mapping[str, Any]) -> Numbers:
    """Every numeric or boolean top-level field, and every number of the usage."""
    found = _numbers_of(reply)
    for name in _NOT_MEASURED:
        found.pop(name, None)
    response = reply.get("response")
    usage = response.get("usage") if isinstance(response, Mapping) else None
    if isinstance(usage, Mapping):
        found |= _numbers_of(usage)
    return found


def describe(rows: Iterable[Numbers]) -> dict[str, float]:
    """`mean/x, max/x, min/x, median/x, std/x` of every field that any row has."""
    columns: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    return describe_columns(columns)


def describe_columns(columns: Mapping[str, Sequence[float]]) -> dict[str, float]:
    described: dict[str, float] = {}
    for name, values in columns.items():
        mean, greatest, least = statistics.fmean(values), max(values), min(values)
        described[f"mean/{name}"] = mean
        described[f"max/{name}"] = greatest
        described[f"min/{name}"] = least
        described[f"median/{name}"] = statistics.median(values)
        described[f"std/{name}"] = _deviation(values, mean) if greatest > least else 0.0
    return described


def pass_at_k(n: int, correct: int, k: int) -> float:
    """The unbiased estimate of at least one success among k of n tries."""
    if n - correct < k:
        return 1.0
    return 1.0 - math.comb(n - correct, k) / math.comb(n, k)


def _deviation(values: Sequence[float], mean: float) -> float:
    """Of a sample. `statistics.stdev` counts in fractions and takes 4 to 7 times as long."""
    return math.dist(values, [mean] * len(values)) / math.sqrt(len(values) - 1)


def _group(task: Any, group: Sequence[tuple[Any, Numbers]], expected: int) -> dict[str, Any]:
    infos = [{"rollout_id": f"{task}:{rollout}", **found} for rollout, found in group]
    return {
        TASK: task,
        **describe(found for _, found in group),
        "num_rollouts": len(group),
        "expected_num_rollouts": expected,
        "missing_num_rollouts": expected - len(group),
        "reward_profile_completion_pct": 100.0 * len(group) / expected if expected else 0.0,
        "rollout_infos": infos,
    }


def _is_reply(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get(TASK, 0), (int, str))


def _numbers_of(fields: Mapping[str, Any]) -> Numbers:
    return {
        name: float(value)
        for name, value in fields.items()
        if isinstance(value, (int, float)) and math.isfinite(value)  # a boolean is an int
    }
