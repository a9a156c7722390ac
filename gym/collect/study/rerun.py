"""The options and the result of re-running recorded rollouts: each difference with its file and line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

MAX_LISTED = 1000

OnProgress = Callable[[int, int], None]  # done, differing


@dataclass(frozen=True, slots=True, kw_only=True)
class RerunOptions:
    stack_url: str
    token: str = field(default="", repr=False)
    concurrency: int = 16
    timeout: float = 600.0  # for one rollout


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that differs from the recorded one."""

    where: str  # file:line
    what: str  # "reward", "verify failed", "get_weather, call 2"
    recorded: str
    now: str


@dataclass(slots=True)
class RerunResult:
    """All differences are counted; the first thousand are listed."""

    checked: int = 0
    differing: int = 0  # rollouts with at least one difference
    failed: int = 0  # of these: rollouts that a server failed
    calls: int = 0  # tool calls issued
    differences: list[Difference] = field(default_factory=list)
    modes: dict[str, str] = field(default_factory=dict)  # by resources server
    output: Path | None = None
    mean_recorded: float | None = None
    mean_now: float | None = None

    def add(self, found: list[Difference], *, failed: bool = False) -> None:
        self.checked += 1
        self.differing += bool(found)
        self.failed += failed
        room = MAX_LISTED - len(self.differences)
        self.differences += found[:room] if room > 0 else []

    @property
    def exit_code(self) -> int:
        return int(self.differing > 0)

    def sort(self) -> None:
        self.differences.sort(key=lambda one: (one.where.rpartition(":")[0], int(one.where.rpartition(":")[2])))
