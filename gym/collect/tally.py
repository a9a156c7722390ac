"""Counts what a run has done, in constant memory, and returns it as `Progress`."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass, field

from gym.collect.events import AgentProgress, HeldCalls, Progress

_RATE_SECONDS = 10.0


@dataclass(slots=True)
class _Agent:
    done: int = 0
    reward: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)

    def view(self) -> AgentProgress:
        mean = self.reward / self.done if self.done else None
        return AgentProgress(self.done, self.failures.total(), mean, dict(self.failures))


class Tally:
    def __init__(self) -> None:
        self._began = time.monotonic()
        self._agents: dict[str, _Agent] = {}
        self._failures: Counter[str] = Counter()
        self._recent: deque[tuple[float, int]] = deque()
        self._done = self._failed = self._resumed = 0
        self._reward = 0.0
        self.dropped = 0
        self.bad_rows = 0
        self.tool_errors = Counter[str]()  # by agent: calls that failed inside the tool's server
        self.total: int | None = None

    def add_done(self, agent: str, reward: float) -> None:
        one = self._agents.get(agent) or self._agents.setdefault(agent, _Agent())
        one.done += 1
        one.reward += reward
        self._done += 1
        self._reward += reward

    def add_failure(self, agent: str, kind: str) -> None:
        self._agents.setdefault(agent, _Agent()).failures[kind] += 1
        self._failed += 1
        self._failures[kind] += 1

    def add_earlier(self, agent: str, reward: float | None, kind: str) -> None:
        """Counts what a resume found on the disk."""
        self._resumed += 1
        if kind:
            self.add_failure(agent, kind)
        else:
            self.add_done(agent, reward or 0.0)

    @property
    def nothing_succeeded(self) -> bool:
        return self._failed > 0 and not self._done

    def progress(
        self,
        *,
        in_flight: int = 0,
        retries: int = 0,
        paused_reason: str = "",
        held: tuple[HeldCalls, ...] = (),
        stopping: bool = False,
    ) -> Progress:
        now = time.monotonic()
        ended = self._done + self._failed + self.dropped
        rate = self._rate(now, ended)
        left = None if self.total is None else max(self.total - ended, 0)
        return Progress(
            done=self._done,
            failed=self._failed,
            resumed=self._resumed,
            total=self.total,
            in_flight=in_flight,
            retries=retries,
            dropped=self.dropped,
            bad_rows=self.bad_rows,
            rate=rate,
            mean_reward=self._reward / self._done if self._done else None,
            eta_seconds=left / rate if left is not None and rate > 0 else None,
            elapsed=now - self._began,
            paused_reason=paused_reason,
            held=held,
            stopping=stopping,
            agents={name: one.view() for name, one in sorted(self._agents.items())},
            failures=dict(self._failures),
        )

    def start_clock(self) -> None:
        """Restarts the rate: rollouts of earlier runs do not count for it."""
        self._began = time.monotonic()
        self._recent = deque([(self._began, self._done + self._failed + self.dropped)])

    def _rate(self, now: float, ended: int) -> float:
        self._recent.append((now, ended))
        while len(self._recent) > 2 and now - self._recent[0][0] > _RATE_SECONDS:
            self._recent.popleft()
        since, then = self._recent[0]
        return (ended - then) / (now - since) if now > since else 0.0
