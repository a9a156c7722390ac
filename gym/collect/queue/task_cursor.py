"""Tasks by their numbers, from files read in order: going on costs what lies between, going back starts over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gym.collect.task_reader import Task
from gym.errors import InfraError


class TaskCursor:
    """`begin` gives every task of the data set in its order, each time it is called."""

    def __init__(self, begin: Callable[[], Iterator[Task]]) -> None:
        self._begin = begin
        self._tasks: Iterator[Task] = iter(())
        self._next = 0
        self._begun = False

    def find(self, numbers: Sequence[int]) -> list[Task]:
        """In ascending order of their numbers."""
        found = []
        for number in sorted(numbers):
            if not self._begun or number < self._next:
                self._tasks, self._next, self._begun = self._begin(), 0, True
            found.append(self._advance(number))
        return found

    def _advance(self, number: int) -> Task:
        for task in self._tasks:
            self._next += 1
            if self._next > number:
                return task
        raise InfraError(
            f"the input has no task {number} any more: it was changed while it was collected",
            "put the rows back as they were, or collect the new ones under another --queue-name",
        )
