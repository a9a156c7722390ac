"""Tasks that wait for a worker. Agents share the workers evenly, so that a slow agent cannot take all of them."""

from __future__ import annotations

from collections import Counter, deque

from gym.collect.task_reader import Task


class FairQueue:
    """The next task is one of the agent with the fewest tasks under way; among equals the first that came."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[tuple[int, Task]]] = {}  # of every agent met so far, numbered as they came
        self._under_way: Counter[str] = Counter()
        self._came = 0
        self.rows = 0
        self.size = 0  # bytes

    def put(self, task: Task) -> None:
        self._came += 1
        self._waiting.setdefault(task.agent, deque()).append((self._came, task))
        self.rows += 1
        self.size += len(task.raw)

    def take(self) -> Task | None:
        """None when nothing waits. Call `finish` when the task is done."""
        if not self.rows:
            return None
        if len(self._waiting) == 1:
            (agent,) = self._waiting
        else:
            agent = min((name for name, tasks in self._waiting.items() if tasks), key=self._turn)
        _, task = self._waiting[agent].popleft()
        self._under_way[agent] += 1
        self.rows -= 1
        self.size -= len(task.raw)
        return task

    def finish(self, task: Task) -> None:
        self._under_way[task.agent] -= 1

    def clear(self) -> None:
        for tasks in self._waiting.values():
            tasks.clear()
        self.rows = self.size = 0

    def runs_short(self, least: int) -> bool:
        """Whether an agent that had rows has few now: there may be more of them further on in the input."""
        return any(len(tasks) < least for tasks in self._waiting.values())

    def _turn(self, agent: str) -> tuple[int, int]:
        return self._under_way[agent], self._waiting[agent][0][0]
