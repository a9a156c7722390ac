"""The sums of one run, kept while it grows: each look adds lines that are new, some thousand at a time, so that a look
at a long run ends when its moment is over and the next one goes on."""

from __future__ import annotations

import math
import threading
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from gym.collect.study.estimates import normal_interval
from gym.console.runs.failure_examples import FailureExamples
from gym.console.runs.task_sums import NONE, TaskSums
from gym.console.viewer.columns import BREAKS, TRUNCATED, Columns
from gym.console.viewer.facts import MALFORMED
from gym.console.viewer.run_files import Run

NORMAL = 1.96  # of 95 %
SLICE = 2048  # lines that are counted between two looks at the clock: about 3 ms
COLUMNS = (
    *("agents", "kinds", "tasks", "rewards", "began", "seconds", "queued"),
    *("tokens", "tokens_in", "tokens_out", "steps", "marks"),
)


Interval = tuple[float, float]


@dataclass(slots=True)
class Moments:
    """Mean and spread of numbers of which none is kept."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    lowest: float = math.inf
    highest: float = -math.inf

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.squares += value * value
        self.lowest, self.highest = min(self.lowest, value), max(self.highest, value)

    def take(self, values: Iterable[float]) -> None:
        """Each of them in turn, so that how many come at once makes no difference. NaN is none."""
        count, total, squares = self.count, self.total, self.squares
        lowest, highest = self.lowest, self.highest
        for value in values:
            if value == value:
                count += 1
                total += value
                squares += value * value
                if value < lowest:
                    lowest = value
                if value > highest:
                    highest = value
        self.count, self.total, self.squares = count, total, squares
        self.lowest, self.highest = lowest, highest

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    @property
    def interval(self) -> Interval | None:
        """Of 95 %; one value alone has none."""
        return self._interval(-math.inf, math.inf)

    @property
    def reward_interval(self) -> Interval | None:
        """Of rewards, which lie between 0 and 1 where all that were seen do: their mean then does as well."""
        bounded = self.lowest >= 0 and self.highest <= 1
        return self._interval(0.0, 1.0) if bounded else self.interval

    @property
    def p_value(self) -> float:
        """The chance of a mean this far from 0, by the normal distribution."""
        if self.count < 2 or not self.total:
            return 1.0
        error = self._error()
        return math.erfc(abs(self.total / self.count) / error / math.sqrt(2)) if error else 0.0

    def _interval(self, lowest: float, highest: float) -> Interval | None:
        if self.count < 2:
            return None
        low, high = normal_interval(self.total / self.count, NORMAL * self._error(), lowest, highest)
        return low, high

    def _error(self) -> float:
        mean = self.total / self.count
        variance = max(self.squares - self.count * mean * mean, 0.0) / (self.count - 1)
        return math.sqrt(variance / self.count)


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

    def add_tokens(self, into: Sequence[int], out: Sequence[int]) -> None:
        """-1 is not known."""
        unknown = sum(one < 0 and other < 0 for one, other in zip(into, out, strict=True))
        self.counted += len(into) - unknown
        self.tokens_in += sum(one for one in into if one > 0)
        self.tokens_out += sum(one for one in out if one > 0)


@dataclass(frozen=True, slots=True)
class _Part:
    """Some lines: copies, so that no request waits for a lock while they are counted."""

    columns: Columns
    start: int
    end: int
    values: dict[str, Any]
    hops: dict[str, Any]
    titles: list[str]  # of failures alone


class RunTally:
    """Who changes it holds its `lock`. `columns` and what was `seen` of them belong together."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.changes = 0
        self._interval: tuple[int, Interval | None] = -1, None
        self._clear()

    def _clear(self) -> None:
        self._columns: Columns | None = None
        self._failures: Columns | None = None
        self.seen = self.seen_failed = 0
        self.lines = 0  # of both files; the others are still to be counted
        self.rewards = Moments()
        self.agents: dict[str, AgentTally] = {}
        self.tasks = TaskSums()
        self.kinds: Counter[str] = Counter()
        self.examples = FailureExamples()
        self.queued = Moments()
        self.hops: dict[str, Moments] = {}
        self.began, self.last = math.inf, -math.inf
        # Of lines that have a reward, in the order of the file: what it is, when it came, of which task.
        self.known_rewards, self.known_ends, self.known_places = array("d"), array("d"), array("i")

    @property
    def columns(self) -> Columns:
        return self._columns or Columns()

    @property
    def malformed(self) -> int:
        return self.kinds[MALFORMED]

    @property
    def counted(self) -> int:
        return self.seen + self.seen_failed

    @property
    def behind(self) -> int:
        """Lines that are still to be counted."""
        return self.lines - self.counted

    def interval(self) -> Interval | None:
        """Counted once after each change."""
        changes, found = self._interval
        if changes != self.changes:
            found = interval_of(self.tasks.means())
            self._interval = self.changes, found
        return found

    def update(self, run: Run, files: AbstractContextManager[Any], is_over: Callable[[], bool]) -> bool:
        """Count on until all is counted, or until `is_over`; True where there was something to count. `files`: held
        for as long as columns are copied."""
        before = self.changes
        while True:
            with files:
                parts = self._next_parts(run)
            for part in parts:
                self._take(part)
            if not parts or is_over():
                return self.changes != before

    def _next_parts(self, run: Run) -> list[_Part]:
        """Failures come with the last lines of rollouts: also where some of those come with every look."""
        rollouts, failures = run.rollouts.columns, run.failures.columns
        if self._columns is not None and (self._columns is not rollouts or self._failures is not failures):
            self._clear()
            self.changes += 1
        self._columns, self._failures = rollouts, failures
        self.lines = len(rollouts) + len(failures)
        parts = [_cut(rollouts, self.seen, COLUMNS)] if self.seen < len(rollouts) else []
        if self.seen + SLICE >= len(rollouts) and self.seen_failed < len(failures):
            parts.append(_cut(failures, self.seen_failed, ("agents", "kinds", "numbers"), titles=True))
        return parts

    def _take(self, part: _Part) -> None:
        self.changes += 1
        if part.columns is self._failures:
            self._take_failures(part)
            self.seen_failed = part.end
            return
        self._take_rollouts(part)
        self._take_tasks(part)
        self._take_times(part)
        self.seen = part.end

    def _take_rollouts(self, part: _Part) -> None:
        by_agent = self._by_agent(part)
        for number, lines in by_agent.items():
            tally = self._agent(part.columns.texts[number])
            every = len(lines) == part.end - part.start

            def picked(name: str, lines: Sequence[int] = lines, every: bool = every) -> Sequence[Any]:
                column: Sequence[Any] = part.values[name]
                return column if every else [column[line] for line in lines]

            tally.rollouts += len(lines)
            tally.rewards.take(picked("rewards"))
            tally.seconds.take(picked("seconds"))
            tally.steps += sum(picked("steps"))
            marks = Counter(picked("marks"))
            tally.truncated += sum(count for mark, count in marks.items() if mark & TRUNCATED)
            tally.breaks += sum(count for mark, count in marks.items() if mark & BREAKS)
            tally.add_tokens(picked("tokens_in"), picked("tokens_out"))

    def _by_agent(self, part: _Part) -> dict[int, Sequence[int]]:
        """The lines of verified rollouts; of others their kinds are counted."""
        agents, texts = part.values["agents"], part.columns.texts
        for agent in dict.fromkeys(agents):  # in their order in the file
            self._agent(texts[agent])
        if not any(texts[kind] for kind in set(part.values["kinds"])) and len(set(agents)) == 1:
            return {agents[0]: range(len(agents))}
        found: dict[int, list[int]] = {}
        for line, (agent, kind) in enumerate(zip(agents, part.values["kinds"], strict=True)):
            if texts[kind]:  # a failure among rollouts, or a line that cannot be read
                self.kinds[texts[kind]] += 1
                self._agent(texts[agent]).failed += texts[kind] != MALFORMED
            else:
                found.setdefault(agent, []).append(line)
        return dict(found)

    def _take_tasks(self, part: _Part) -> None:
        texts, values, tasks = part.columns.texts, part.values, self.tasks
        failed = {kind for kind in set(values["kinds"]) if texts[kind]}
        rewards = values["rewards"]
        names = ("kinds", "agents", "tasks", "tokens", "seconds", "began")
        facts = zip(range(part.start, part.end), rewards, *(values[name] for name in names), strict=True)
        known_rewards, known_ends, known_places = self.known_rewards, self.known_ends, self.known_places
        for line, reward, kind, agent, task, tokens, seconds, began in facts:
            place = NONE if kind in failed else tasks.add(line, agent, task, reward, tokens, seconds)
            if reward == reward:
                known_rewards.append(reward)
                known_ends.append(began + seconds if seconds == seconds else began)
                known_places.append(place)
        verified = [reward for reward, kind in zip(rewards, values["kinds"], strict=True) if kind not in failed]
        self.rewards.take(verified if failed else rewards)

    def _take_times(self, part: _Part) -> None:
        """What a hop took, in milliseconds a rollout, of those that say it; from when to when the run goes."""
        for name, values in part.hops.items():
            self.hops.setdefault(name, Moments()).take(values)
        self.queued.take(part.values["queued"])
        texts, values = part.columns.texts, part.values
        for began, seconds, kind in zip(values["began"], values["seconds"], values["kinds"], strict=True):
            if began == began and not texts[kind]:
                self.began = min(self.began, began)
                self.last = max(self.last, began + seconds if seconds == seconds else began)

    def _take_failures(self, part: _Part) -> None:
        texts, values = part.columns.texts, part.values
        kinds = [texts[kind] for kind in values["kinds"]]
        self.examples.take(zip(kinds, part.titles, values["numbers"], strict=True))
        for (agent, kind), count in Counter(zip(values["agents"], values["kinds"], strict=True)).items():
            self.kinds[texts[kind]] += count
            if texts[kind] != MALFORMED:
                self._agent(texts[agent]).failed += count

    def _agent(self, name: str) -> AgentTally:
        return self.agents.setdefault(name, AgentTally(name))


def interval_of(means: Iterable[float]) -> Interval | None:
    """Of the mean rewards of tasks: repeats of a task are not independent tries, so each task counts once."""
    moments = Moments()
    moments.take(means)
    return moments.reward_interval


def _cut(columns: Columns, start: int, names: Sequence[str], *, titles: bool = False) -> _Part:
    end = min(start + SLICE, len(columns))
    hops = {name: values[start:end] for name, values in columns.hops.items()}
    said = [columns.title(index) for index in range(start, end)] if titles else []
    return _Part(columns, start, end, {name: columns.column(name)[start:end] for name in names}, hops, said)
