"""The sums of each task of a run, as columns: an object for each of 200,000 tasks would take a request's whole time."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from itertools import compress
from operator import add, sub, truediv
from typing import Any

from gym.console.runs.agent_passes import TaskPasses, keys_of_passes
from gym.console.viewer.columns import Columns

NONE = -1  # the place of a line that belongs to no task
MAX_TITLE = 160
_LAST = 1 << 31
_BITS = 32  # of a task's number


class TaskSums:
    """A task stands where its first line stood among the others'."""

    def __init__(self) -> None:
        self.tasks = array("i")  # -1 where the line names none: it stands alone
        self.agents = array("I")
        self.firsts = array("I")  # its first line
        self.tries = array("I")  # those with a reward
        self.totals = array("d")
        self.rests = array("d")  # what the totals lost by rounding
        self.lows = array("d")
        self.highs = array("d")
        self.tokens = array("q")
        self.seconds = array("d")
        self._places: dict[int, int] = {}
        self._orders: dict[tuple[str, float, int], list[int]] = {}

    def __len__(self) -> int:
        return len(self.tasks)

    def add(self, line: int, agent: int, task: int, reward: float, tokens: int, seconds: float) -> int:
        """Its place."""
        self._orders.clear()
        place = self._place(line, agent, task)
        if tokens > 0:
            self.tokens[place] += tokens
        if seconds == seconds:
            self.seconds[place] += seconds
        if reward == reward:
            self._add_reward(place, reward)
        return place

    def _place(self, line: int, agent: int, task: int) -> int:
        if task >= 0:
            found = self._places.setdefault(agent << _BITS | task, len(self.tasks))
            if found < len(self.tasks):
                return found
        self.tasks.append(task)
        self.agents.append(agent)
        self.firsts.append(line)
        self.tries.append(0)
        for column in (self.totals, self.rests, self.lows, self.highs, self.seconds):
            column.append(0.0)
        self.tokens.append(0)
        return len(self.tasks) - 1

    def _add_reward(self, place: int, reward: float) -> None:
        """The sum of a task is as exact as `math.fsum` has it: equal rewards in any order make equal means."""
        before = self.totals[place]
        total = before + reward
        part = total - before
        self.rests[place] += (before - (total - part)) + (reward - part)
        self.totals[place] = total
        if not self.tries[place] or reward < self.lows[place]:
            self.lows[place] = reward
        if not self.tries[place] or reward > self.highs[place]:
            self.highs[place] = reward
        self.tries[place] += 1

    def means(self) -> array[float]:
        """Of those that have a reward."""
        totals = map(add, self.totals, self.rests)
        if not all(self.tries):
            return array("d", map(truediv, compress(totals, self.tries), filter(None, self.tries)))
        return array("d", map(truediv, totals, self.tries))

    def mean(self, place: int) -> float | None:
        tries = self.tries[place]
        return (self.totals[place] + self.rests[place]) / tries if tries else None

    def spreads(self) -> array[float]:
        return array("d", map(sub, self.highs, self.lows))

    def in_order(self, sort: str, passes: TaskPasses) -> list[int]:
        """Kept until the next change: pages of a table are turned."""
        name = sort.lstrip("-")
        asked = (sort, passes.border, passes.k) if name in BY_PASSES else (sort, 0.0, 0)
        if asked not in self._orders:
            keys = keys_of_passes(name, self.tries, passes) if name in BY_PASSES else _KEYS[name](self)
            order = sorted(range(len(self)), key=keys.__getitem__, reverse=sort.startswith("-"))
            self._orders = {asked: order}
        return self._orders[asked]

    def view(self, place: int, columns: Columns) -> dict[str, Any]:
        tries, task = self.tries[place], self.tasks[place]
        return {
            "task": task if task >= 0 else None,
            "agent": columns.texts[self.agents[place]],
            "title": columns.title(self.firsts[place])[:MAX_TITLE],
            "tries": tries,
            "mean": self.mean(place),
            "spread": self.highs[place] - self.lows[place],
            "low": self.lows[place] if tries else None,
            "high": self.highs[place] if tries else None,
            "tokens": self.tokens[place] / tries if tries else None,
            "seconds": self.seconds[place] / tries if tries else None,
        }


def count_passed(places: Iterable[int], rewards: Iterable[float], border: float, count: int) -> array[int]:
    """How many tries of each of `count` tasks reached the border. The others: of all lines that have a reward."""
    found = array("I", bytes(array("I").itemsize * (count + 1)))  # the last one is that of NONE
    for place in compress(places, map(border.__le__, rewards)):
        found[place] += 1
    found.pop()
    return found


def _task_keys(sums: TaskSums) -> list[int]:
    """Those without a number come last."""
    pairs = zip(sums.tasks, sums.agents, strict=True)
    return [(task if task >= 0 else _LAST) << _BITS | agent for task, agent in pairs]


def _mean_keys(sums: TaskSums) -> list[float]:
    keys = map(add, sums.totals, sums.rests)
    return [total / tries if tries else float("-inf") for total, tries in zip(keys, sums.tries, strict=True)]


_KEYS: dict[str, Callable[[TaskSums], Any]] = {
    "task": _task_keys,
    "mean": _mean_keys,
    "spread": TaskSums.spreads,
    "tries": lambda sums: sums.tries,
    "tokens": lambda sums: sums.tokens,
    "seconds": lambda sums: sums.seconds,
}
BY_PASSES = frozenset(("passed", "pass"))
TASK_SORTS = frozenset(f"{sign}{name}" for name in (*_KEYS, *BY_PASSES) for sign in ("", "-"))
