"""The events of a collection and its summary: plain values that a terminal, a log or a page can show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gym.collect.queue.queue_options import QueueView
from gym.errors import Problem

EXIT_DONE = 0
EXIT_FAILED = 1  # a bad row ended the run, or nothing at all succeeded
EXIT_GAVE_UP = 2  # paused for longer than the user allows
EXIT_STOPPED = 130


@dataclass(frozen=True, slots=True)
class AgentProgress:
    done: int = 0
    failed: int = 0
    mean_reward: float | None = None  # over the done ones: a failure has no reward
    failures: Mapping[str, int] = field(default_factory=dict)  # by kind


@dataclass(frozen=True, slots=True)
class HeldCalls:
    """Calls that wait in a model server: its provider refuses more, or no more are to be under way at once."""

    instance: str
    provider: str
    waiting: int = 0  # calls, now
    refused: int = 0  # in the last seconds
    seconds: int = 10

    def __str__(self) -> str:
        waiting = f"{self.instance}: {self.waiting:,} calls wait"
        if not self.refused:
            return f"{waiting}, as many as may be are under way at {self.provider}"
        return f"{waiting}, {self.provider} refused {self.refused:,} in the last {self.seconds} s"


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a run, at most five times a second."""

    done: int = 0  # rollouts on disk, those of earlier runs included
    failed: int = 0
    resumed: int = 0  # how many of these an earlier run did
    total: int | None = None  # of rollouts, once it is known; an estimate until the input is read
    in_flight: int = 0
    retries: int = 0
    dropped: int = 0  # agents may ask not to keep a rollout
    bad_rows: int = 0
    rate: float = 0.0  # rollouts a second, over the last ten seconds
    mean_reward: float | None = None
    eta_seconds: float | None = None
    elapsed: float = 0.0
    paused_reason: str = ""
    held: tuple[HeldCalls, ...] = ()
    stopping: bool = False
    agents: Mapping[str, AgentProgress] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)  # by kind
    queue: QueueView | None = None  # of all collectors; the rest is this one's own part

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class BadRow:
    problem: Problem


@dataclass(frozen=True, slots=True)
class Notice:
    """One line that a person should read: a pause, a cut line, files moved aside."""

    text: str
    paused: bool = False  # true: no attempt starts for now


@dataclass(frozen=True, slots=True)
class Summary:
    """How a run ended."""

    exit_code: int
    progress: Progress
    output: Path
    failures_file: Path | None = None  # where there are any
    metrics_file: Path | None = None
    bad_rows: tuple[Problem, ...] = ()
    reason: str = ""  # why it ended before its input did

    def to_dict(self) -> dict[str, Any]:
        return {
            "exit_code": self.exit_code,
            "reason": self.reason,
            "output": str(self.output),
            "failures_file": str(self.failures_file) if self.failures_file else None,
            "metrics_file": str(self.metrics_file) if self.metrics_file else None,
            "bad_rows": [str(problem) for problem in self.bad_rows],
            "progress": self.progress.to_dict(),
        }


Event = Progress | BadRow | Notice
OnEvent = Callable[[Event], None]
