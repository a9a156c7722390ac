"""The sums of one run, kept while it grows: each look adds the lines that are new."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from gym.console.viewer.columns import BREAKS, TRUNCATED, Columns
from gym.console.viewer.facts import MALFORMED
from gym.console.viewer.run_files import Run

NORMAL = 1.96  # of 95 %


@dataclass(slots=True)
class Moments:
    """Mean and spread of numbers of which none is kept."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.squares += value * value

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of 95 %; one value alone has none."""
        if self.count < 2:
            return None
        mean, reach = self.total / self.count, NORMAL * self._error()
        return mean - reach, mean + reach

    @property
    def p_value(self) -> float:
        """The chance of a mean this far from 0, by the normal distribution."""
        if self.count < 2 or not self.total:
            return 1.0
        error = self._error()
        return math.erfc(abs(self.total / self.count) / error / math.sqrt(2)) if error else 0.0

    def _error(self) -> float:
        mean = self.total / self.count
        variance = max(self.squares - self.count * mean * mean, 0.0) / (self.count - 1)
        return math.sqrt(variance / self.count)


@dataclass(slots=True)
class TaskTally:
    task: int  # -1 where the line names none: it stands alone
    agent: int
    first: int  # its first line
    rewards: list[float] = field(default_factory=list)
    tokens: int = 0
    seconds: float = 0.0

    @property
    def mean(self) -> float:
        return math.fsum(self.rewards) / len(self.rewards) if self.rewards else math.nan

    @property
    def spread(self) -> float:
        return max(self.rewards) - min(self.rewards) if self.rewards else 0.0

    def passed(self, border: float) -> int:
        return sum(reward >= border for reward in self.rewards)


@dataclass(slots=True)
class AgentTally:
    name: str
    rewards: Moments = field(default_factory=Moments)
    seconds: Moments = field(default_factory=Moments)
    tokens_in: int = 0
    tokens_out: int = 0
    counted: int = 0  # rollouts that say how many tokens they took
    steps: int = 0
    rollouts: int = 0
    failed: int = 0
    truncated: int = 0
    breaks: int = 0


class RunTally:
    """`update` first, with the files' lock held."""

    def __init__(self) -> None:
        self.changes = 0
        self._clear()

    def _clear(self) -> None:
        self._columns: Columns | None = None
        self._failures: Columns | None = None
        self._seen = self._seen_failed = 0
        self.rewards = Moments()
        self.agents: dict[str, AgentTally] = {}
        self.tasks: dict[tuple[int, int], TaskTally] = {}
        self.kinds: Counter[str] = Counter()
        self.queued = Moments()
        self.hops: dict[str, Moments] = {}
        self.began, self.last = math.inf, -math.inf

    @property
    def columns(self) -> Columns:
        return self._columns or Columns()

    @property
    def malformed(self) -> int:
        return self.kinds[MALFORMED]

    def update(self, run: Run) -> None:
        replaced = self._columns is not None and (
            self._columns is not run.rollouts.columns or self._failures is not run.failures.columns
        )
        if replaced:
            self._clear()
        self._columns, self._failures = run.rollouts.columns, run.failures.columns
        fresh = len(self._columns) - self._seen, len(self._failures) - self._seen_failed
        if not any(fresh):
            return
        self.changes += 1
        self._take_rollouts(self._columns, self._seen)
        self._take_failures(self._failures, self._seen_failed)
        self._take_hops(self._columns, self._seen)
        self._seen, self._seen_failed = len(self._columns), len(self._failures)

    def _take_rollouts(self, columns: Columns, start: int) -> None:
        texts, agents = columns.texts, self._numbered(columns)
        chosen = columns.agents, columns.kinds, columns.tasks, columns.rewards, columns.began, columns.seconds
        facts = zip(range(start, len(columns)), *(one[start:] for one in chosen), strict=True)
        for index, agent, kind, task, reward, began, seconds in facts:
            if texts[kind]:  # a failure among rollouts, or a line that cannot be read
                self.kinds[texts[kind]] += 1
                agents(agent).failed += texts[kind] != MALFORMED
                continue
            tally = agents(agent)
            tally.rollouts += 1
            if reward == reward:
                self.rewards.add(reward)
                tally.rewards.add(reward)
            if seconds == seconds:
                tally.seconds.add(seconds)
            if began == began:
                self.began = min(self.began, began)
                self.last = max(self.last, began + (seconds if seconds == seconds else 0.0))
            self._take_task(columns, index, agent, task, reward)
            self._take_counts(columns, index, tally)

    def _take_task(self, columns: Columns, index: int, agent: int, task: int, reward: float) -> None:
        key = (agent, task if task >= 0 else -1 - index)
        found = self.tasks.get(key)
        if found is None:
            found = self.tasks[key] = TaskTally(task, agent, index)
        if reward == reward:
            found.rewards.append(reward)
        found.tokens += max(columns.tokens[index], 0)
        seconds = columns.seconds[index]
        found.seconds += seconds if seconds == seconds else 0.0

    @staticmethod
    def _take_counts(columns: Columns, index: int, tally: AgentTally) -> None:
        tally.steps += columns.steps[index]
        marks = columns.marks[index]
        tally.truncated += bool(marks & TRUNCATED)
        tally.breaks += bool(marks & BREAKS)
        if columns.tokens_in[index] >= 0 or columns.tokens_out[index] >= 0:
            tally.counted += 1
            tally.tokens_in += max(columns.tokens_in[index], 0)
            tally.tokens_out += max(columns.tokens_out[index], 0)

    def _take_failures(self, columns: Columns, start: int) -> None:
        agents, texts = self._numbered(columns), columns.texts
        for agent, kind in zip(columns.agents[start:], columns.kinds[start:], strict=True):
            self.kinds[texts[kind]] += 1
            if texts[kind] != MALFORMED:
                agents(agent).failed += 1

    def _numbered(self, columns: Columns) -> Callable[[int], AgentTally]:
        found: dict[int, AgentTally] = {}

        def tally_of(number: int) -> AgentTally:
            tally = found.get(number)
            if tally is None:
                name = columns.texts[number]
                tally = found[number] = self.agents.setdefault(name, AgentTally(name))
            return tally

        return tally_of

    def _take_hops(self, columns: Columns, start: int) -> None:
        """What a hop took, in milliseconds a rollout, of those that say it."""
        for name, values in columns.hops.items():
            moments = self.hops.setdefault(name, Moments())
            for value in values[start:]:
                if value == value:
                    moments.add(value)
        for value in columns.queued[start:]:
            if value == value:
                self.queued.add(value)

    def finished(self) -> Iterator[tuple[float, float]]:
        """(when it ended, its reward), in the order of the file."""
        columns = self.columns
        for began, seconds, reward in zip(columns.began, columns.seconds, columns.rewards, strict=True):
            if reward == reward:
                yield began + (seconds if seconds == seconds else 0.0), reward
