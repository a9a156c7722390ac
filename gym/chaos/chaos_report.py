"""What a chaos run came to: as a dictionary for a file, and whether anything is wrong."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gym.chaos.chaos_verdict import ChaosVerdict
from gym.chaos.process_usage import Usage
from gym.chaos.recovery_watch import Recovery


@dataclass(frozen=True)
class StruckFault:
    """A fault that was done, and how the stack came back."""

    name: str
    victim: str
    at: float  # seconds since the first collection that was disturbed
    lasted: float
    recovery: Recovery


@dataclass
class ChaosReport:
    stack: str
    runtime: str
    seed: int
    cores: int = field(default_factory=lambda: os.cpu_count() or 1)
    load: tuple[float, float] = (0.0, 0.0)  # of the machine, at the begin and at the end
    seconds: float = 0.0
    rounds: int = 0  # whole collections, each compared
    collectors: int = 0
    model_calls: int = 0
    spoilt_calls: int = 0
    verdict: ChaosVerdict = field(default_factory=ChaosVerdict)
    faults: list[StruckFault] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    before: Mapping[str, Usage] = field(default_factory=dict)
    after: Mapping[str, Usage] = field(default_factory=dict)
    leaks: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        """A line for each thing that is wrong; none: the run was clean."""
        one = self.verdict
        counts = {"lost": one.lost, "doubled": one.doubled, "with another reward": one.wrong, "failed": one.failed}
        found = [f"{count} rollouts {what}" for what, count in counts.items() if count]
        found += [f"  {example}" for example in one.examples]
        found += [f"never healthy again after {fault.name} of {fault.victim}" for fault in self.never_back]
        return [*found, *(f"grown: {line}" for line in self.leaks), *(f"left behind: {line}" for line in self.orphans)]

    @property
    def never_back(self) -> list[StruckFault]:
        return [one for one in self.faults if one.recovery.whole is None]

    def to_dict(self) -> dict[str, Any]:
        usage = {name: {"before": _usage(self.before, name), "after": _usage(self.after, name)} for name in self.after}
        kept = {name: value for name, value in asdict(self).items() if name not in ("before", "after")}
        return {**kept, "processes": usage, "problems": self.problems}


def recovery_rows(faults: Sequence[StruckFault]) -> list[tuple[str, ...]]:
    """For each fault and victim: how often, and the median and the worst of each time."""
    rows = []
    for name, victim in sorted(dict.fromkeys((one.name, one.victim) for one in faults)):
        own = [one.recovery for one in faults if (one.name, one.victim) == (name, victim)]
        times = (_spread(values) for values in zip(*((one.out, one.served, one.whole) for one in own), strict=True))
        rows.append((name, victim, str(len(own)), *times))
    return rows


def _spread(values: Iterable[float | None]) -> str:
    known = [one for one in values if one is not None]
    return f"{statistics.median(known):.1f} (max {max(known):.1f})" if known else "-"


def _usage(found: Mapping[str, Usage], name: str) -> dict[str, int | None] | None:
    return found[name]._asdict() if name in found else None
