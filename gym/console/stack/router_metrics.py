"""The router's Prometheus text -> sums of calls by instance. Pure; what another version of it adds is passed over."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

PREFIX: Final = "traefik_service_"
SAMPLE: Final = re.compile(r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$")
LABEL: Final = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
REPLICA: Final = re.compile(r"^replica-(?P<id>.+)\.one$")  # the router's own service for one replica


def read_sums(text: str, names: Mapping[str, str]) -> dict[str, float]:
    """`names`: instance by slug and by replica id. The sums are called `INSTANCE|calls`, `INSTANCE|failed` and
    `INSTANCE|le|EDGE`."""
    sums: dict[str, float] = {}
    for name, labels, value in _samples(text):
        service = labels.get("service", "").partition("@")[0]
        replica = REPLICA.match(service)
        instance = names.get(replica["id"] if replica else service)
        if instance is None or not name.startswith(PREFIX):
            continue
        for key in _keys(name.removeprefix(PREFIX), labels):
            sums[f"{instance}|{key}"] = sums.get(f"{instance}|{key}", 0.0) + value
    return sums


def _keys(name: str, labels: Mapping[str, str]) -> Iterator[str]:
    if name == "requests_total":
        yield "calls"
        if labels.get("code", "").startswith("5"):
            yield "failed"
    elif name == "request_duration_seconds_bucket":
        yield f"le|{labels.get('le', '')}"


def _samples(text: str) -> Iterator[tuple[str, dict[str, str], float]]:
    for line in text.splitlines():
        found = SAMPLE.match(line)
        if found is None:
            continue
        try:
            value = float(found["value"])
        except ValueError:
            continue
        yield found["name"], dict(LABEL.findall(found["labels"] or "")), value


def spread_buckets(sums: Mapping[str, float], instance: str) -> tuple[list[float], list[float]]:
    """(edges, counts between them, the last beyond them): Prometheus' buckets hold all that is below."""
    start = f"{instance}|le|"
    found = sorted((float(key.removeprefix(start)), value) for key, value in sums.items() if key.startswith(start))
    counts = [value - (found[index - 1][1] if index else 0.0) for index, (_, value) in enumerate(found)]
    return [edge for edge, _ in found if edge != float("inf")], counts
