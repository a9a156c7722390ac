"""What the servers say of their own work on /healthz (gym.server.call_counts) -> rates, percentiles, who calls whom.

Another program may answer there: what does not fit is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from gym.console.probes import Probe
from gym.console.stack.sliding_window import Growth, quantile

ASKED, BUCKET, BEGAN = "asked", "bucket", "began"
ALL = "all calls"


def read_work(probe: Probe) -> Mapping[str, Any]:
    """Empty where the server does not tell."""
    work = probe.health.get("work")
    return work if isinstance(work, Mapping) else {}


def sums_of(probes: Mapping[str, Probe]) -> dict[str, float]:
    return {f"{id}|{key}": value for id, probe in probes.items() for key, value in _sums(read_work(probe))}


def figures(growth: Growth, ids: Sequence[str], works: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Of one instance, over its replicas; None where none of them tells."""
    telling = [one for one in works if "buckets" in one]
    if not telling:
        return None
    edges, counts = histogram(growth, ids, telling)
    failed = sum(growth.sums.get(f"{id}|failed", 0.0) for id in ids)
    found = describe(growth.seconds, edges, counts, failed)
    return found | {"in_flight": int(sum(_number(one.get("in_flight")) for one in telling)), "of": ALL}


def histogram(
    growth: Growth, ids: Sequence[str], works: Sequence[Mapping[str, Any]]
) -> tuple[list[float], list[float]]:
    """(edges, counts between them and beyond), of all these replicas."""
    edges = next((edges for one in works if (edges := _numbers(one.get("edges")))), [])
    return edges, [sum(growth.sums.get(f"{id}|{BUCKET}|{n}", 0.0) for id in ids) for n in range(len(edges) + 1)]


def describe(seconds: float, edges: Sequence[float], counts: Sequence[float], failed: float) -> dict[str, Any]:
    calls = sum(counts)
    return {
        "rate": calls / seconds if seconds else None,
        "calls": int(calls),
        "failed": int(failed),
        "p50": quantile(edges, counts, 0.5),
        "p95": quantile(edges, counts, 0.95),
    }


def calls_between(growth: Growth, ids: Mapping[str, Iterable[str]]) -> dict[tuple[str, str], float]:
    """(caller, who was asked) -> calls in the window. `ids`: an instance's replicas."""
    owners = {id: instance for instance, replicas in ids.items() for id in replicas}
    found: dict[tuple[str, str], float] = {}
    for key, value in growth.sums.items():
        id, _, rest = key.partition("|")
        if rest.startswith(f"{ASKED}|") and id in owners:
            pair = owners[id], rest.removeprefix(f"{ASKED}|")
            found[pair] = found.get(pair, 0.0) + value
    return found


def calls_begun(growth: Growth, ids: Iterable[str]) -> float:
    """In the window, as callers count them: of those that ended in it some began before."""
    return sum(growth.sums.get(f"{id}|{BEGAN}", 0.0) for id in ids)


def _sums(work: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    yield from ((key, _number(work[key])) for key in ("failed", "cpu_seconds") if key in work)
    ended = _numbers(work.get("buckets"))
    yield from ((f"{BUCKET}|{number}", count) for number, count in enumerate(ended))
    yield BEGAN, _number(work["began"]) if "began" in work else sum(ended)
    asked = work.get("asked")
    if isinstance(asked, Mapping):
        yield from ((f"{ASKED}|{name}", _number(count)) for name, count in asked.items())


def _numbers(value: object) -> list[float]:
    return [_number(one) for one in value[:64]] if isinstance(value, list) else []


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and value == value else 0.0
