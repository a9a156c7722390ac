"""Whose turn it is among the agents, whatever came, was taken and ended before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gym.collect.fair_queue import FairQueue
from gym.collect.task_reader import Task

STEPS = st.lists(st.one_of(st.sampled_from("abcde"), st.just("take"), st.integers(0, 3)), max_size=200)


def task(agent: str, number: int) -> Task:
    return Task(b"{}", b"}", f"{number:016x}:0", agent, number, 0, "")


@given(STEPS)
def test_the_agent_with_the_fewest_under_way_is_next_and_among_equals_the_first_that_came(
    steps: list[str | int],
) -> None:
    """A letter puts a task of that agent, a number ends one of those under way."""
    queue = FairQueue()
    waiting: list[Task] = []
    taken: list[Task] = []
    for number, step in enumerate(steps):
        if isinstance(step, int):
            if step < len(taken):
                queue.finish(taken.pop(step))
        elif step == "take":
            fewest = min(waiting, key=lambda one: sum(other.agent == one.agent for other in taken), default=None)
            assert queue.take() == fewest
            if fewest is not None:
                waiting.remove(fewest)
                taken.append(fewest)
        else:
            waiting.append(task(step, number))
            queue.put(waiting[-1])
        assert queue.rows == len(waiting)


def test_what_is_remembered_of_agents_does_not_grow_with_their_tasks() -> None:
    queue = FairQueue()
    for number in range(3000):
        queue.put(task("abc"[number % 3], number))
    for _ in range(2500):
        one = queue.take()
        assert one is not None
        queue.finish(one)
    assert len(queue._turns) <= 12
    queue.clear()
    assert queue.take() is None
    queue.put(task("b", 1))
    assert queue.take() == task("b", 1)
