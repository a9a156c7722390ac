"""Which queue a collector takes its rows from, and how that queue stands."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """`lease`: how many seconds a collector may be silent before its rollouts are another's."""

    url: str = field(repr=False)
    name: str = "rollouts"
    lease: float = 60.0


@dataclass(frozen=True, slots=True)
class QueueView:
    """The whole queue, as all its collectors see it."""

    total: int = 0
    done: int = 0
    failed: int = 0
    left: int = 0  # rollouts that have not ended
    collectors: int = 1  # heard of within a lease
