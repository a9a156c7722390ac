"""What the broker counted, as Prometheus reads it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

EDGES = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)


@dataclass(slots=True)
class Histogram:
    counts: list[int] = field(default_factory=lambda: [0] * (len(EDGES) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(EDGES, seconds)] += 1
        self.total += seconds


@dataclass(slots=True)
class Meters:
    counts: dict[tuple[str, str], int] = field(default_factory=dict)  # (name, outcome)
    seconds: dict[str, Histogram] = field(default_factory=dict)

    def count(self, name: str, outcome: str = "ok") -> None:
        self.counts[name, outcome] = self.counts.get((name, outcome), 0) + 1

    def time(self, name: str, seconds: float) -> None:
        self.seconds.setdefault(name, Histogram()).add(seconds)

    def text(self, gauges: Iterable[tuple[str, float]]) -> str:
        lines: list[str] = ["# TYPE gym_sandbox_requests_total counter"]
        lines += [
            f'gym_sandbox_requests_total{{verb="{name}",outcome="{outcome}"}} {count}'
            for (name, outcome), count in sorted(self.counts.items())
        ]
        for name, value in gauges:
            lines += [f"# TYPE gym_sandbox_{name} gauge", f"gym_sandbox_{name} {value:g}"]
        if self.seconds:
            lines.append("# TYPE gym_sandbox_seconds histogram")
        for name, histogram in sorted(self.seconds.items()):
            below = 0
            for edge, count in zip((*EDGES, float("inf")), histogram.counts, strict=True):
                below += count
                label = "+Inf" if edge == float("inf") else f"{edge:g}"
                lines.append(f'gym_sandbox_seconds_bucket{{verb="{name}",le="{label}"}} {below}')
            lines.append(f'gym_sandbox_seconds_sum{{verb="{name}"}} {histogram.total:.6f}')
            lines.append(f'gym_sandbox_seconds_count{{verb="{name}"}} {below}')
        return "\n".join(lines) + "\n"
