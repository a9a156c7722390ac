"""Tasks that wait for a worker. Agents share the workers evenly, so that a slow agent cannot take all of them."""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush

from gym.collect.task_reader import Task

_MAX_PASSED = 4  # turns kept for each agent: all but one of an agent are of another moment


class FairQueue:
    """The next task is one of the agent with the fewest tasks under way; among equals the first that came."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[tuple[int, Task]]] = {}  # of every agent met so far, numbered as they came
        self._under_way: dict[str, int] = {}
        self._turns: list[tuple[int, int, str]] = []  # a heap of (under way, first that waits, agent), of several
        self._came = 0
        self.rows = 0
        self.size = 0  # bytes

    def put(self, task: Task) -> None:
        self._came += 1
        waiting = self._waiting.get(task.agent)
        if waiting is None:
            waiting = self._waiting[task.agent] = deque()
            self._under_way[task.agent] = 0
            if len(self._waiting) == 2:  # the first agent was alone until now
                self._order()
        waiting.append((self._came, task))
        self.rows += 1
        self.size += len(task.raw)
        if len(waiting) == 1 and len(self._waiting) > 1:
            self._queue_up(task.agent)

    def take(self) -> Task | None:
        """None when nothing waits. Call `finish` when the task is done."""
        if not self.rows:
            return None
        alone = len(self._waiting) == 1
        agent = next(iter(self._waiting)) if alone else self._next()
        _, task = self._waiting[agent].popleft()
        self._under_way[agent] += 1
        self.rows -= 1
        self.size -= len(task.raw)
        if not alone:
            self._queue_up(agent)
        return task

    def finish(self, task: Task) -> None:
        self._under_way[task.agent] -= 1
        if self._turns:
            self._queue_up(task.agent)

    def clear(self) -> None:
        for tasks in self._waiting.values():
            tasks.clear()
        self._turns.clear()
        self.rows = self.size = 0

    def runs_short(self, least: int) -> bool:
        """Whether an agent that had rows has few now: there may be more of them further on in the input."""
        return any(len(tasks) < least for tasks in self._waiting.values())

    def _next(self) -> str:
        """Of some turns the agent has had another one since."""
        while True:
            under_way, first, agent = heappop(self._turns)
            waiting = self._waiting[agent]
            if waiting and waiting[0][0] == first and self._under_way[agent] == under_way:
                return agent

    def _queue_up(self, agent: str) -> None:
        if not (waiting := self._waiting[agent]):
            return
        heappush(self._turns, (self._under_way[agent], waiting[0][0], agent))
        if len(self._turns) > _MAX_PASSED * len(self._waiting):
            self._order()

    def _order(self) -> None:
        found = [(self._under_way[name], tasks[0][0], name) for name, tasks in self._waiting.items() if tasks]
        heapify(found)
        self._turns = found
