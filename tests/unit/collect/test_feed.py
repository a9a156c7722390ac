"""Tasks reach the workers in order, read ahead no further than needed, and a thread's end is everybody's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from gym.collect.feed import FileFeed, RowsFeed
from gym.collect.task_reader import Task, TaskReader, TaskRules
from gym.errors import ConfigError, Problem, UserError

ROW: dict[str, object] = {"responses_create_params": {}}


def task(number: int, agent: str = "math") -> Task:
    return Task(b"{}", b"}", f"{number:016x}:0", agent, number, 0, f"data.jsonl:{number}")


async def drain(feed: FileFeed | RowsFeed) -> list[int]:
    found = []
    while (one := await feed.take()) is not None:
        found.append(one.task_index)
    return found


async def test_every_task_comes_once_and_in_order() -> None:
    feed = FileFeed((task(number) for number in range(5000)), lambda problem: True)
    await feed.start()
    assert await drain(feed) == list(range(5000))
    assert feed.exhausted
    assert await feed.take() is None
    await feed.aclose()


async def test_nothing_is_read_far_ahead_of_the_workers() -> None:
    taken, seen = 0, list[int]()

    def count() -> Iterator[Task]:
        for number in range(20_000):
            seen.append(number)
            yield task(number)

    feed = FileFeed(count(), lambda problem: True, workers=10)
    await feed.start()
    while await feed.take() is not None:
        taken += 1
        assert len(seen) - taken < 1000 + 5 * 64
    await feed.aclose()


async def test_an_agent_that_hangs_keeps_its_part_of_the_workers_and_another_goes_on() -> None:
    feed = FileFeed((task(number, ("slow", "quick")[number % 2]) for number in range(800)), lambda problem: True)
    await feed.start()
    hung, done = list[int](), list[int]()
    hung_meanwhile = 0

    async def work() -> None:
        nonlocal hung_meanwhile
        while (one := await feed.take()) is not None:
            if one.agent == "slow":
                hung.append(one.task_index)
                await asyncio.Event().wait()
            await asyncio.sleep(0)
            done.append(one.task_index)
            if len(done) <= 396:  # there are rows of both
                hung_meanwhile = len(hung)
            feed.finish(one)

    workers = [asyncio.create_task(work()) for _ in range(8)]
    while len(hung) < 8:  # in the end, free workers go to the agents that have rows
        await asyncio.sleep(0)
    assert done == list(range(1, 800, 2))
    assert hung_meanwhile == 4
    for worker in workers:
        worker.cancel()
    await feed.aclose()


async def test_rows_of_two_agents_are_begun_in_their_order_while_both_have_their_part() -> None:
    feed = FileFeed((task(number, "ab"[number // 3 % 2]) for number in range(30)), lambda problem: True)
    await feed.start()
    taken = []
    while (one := await feed.take()) is not None:
        taken.append(one.task_index)
        feed.finish(one)
    assert taken == list(range(30))
    await feed.aclose()


async def test_where_one_agent_fills_what_is_read_ahead_more_is_read_for_the_others_up_to_a_bound() -> None:
    seen = list[int]()

    def count() -> Iterator[Task]:
        for number in range(50_000):
            seen.append(number)
            yield task(number, "rare" if number % 5000 == 0 else "common")

    feed = FileFeed(count(), lambda problem: True, workers=10)
    await feed.start()
    while len(seen) <= 10_000:  # for the third of the rare ones, although no task is taken
        await asyncio.sleep(0)
    for taken in range(1, 3001):
        assert await feed.take() is not None
        assert len(seen) - taken < 10_000 + 10 + 6 * 64
        await asyncio.sleep(0)
    await feed.aclose()


async def test_problems_of_the_first_batch_are_reported_before_the_start() -> None:
    reported: list[Problem] = []

    def on_problem(problem: Problem) -> bool:
        reported.append(problem)
        return False

    feed = FileFeed(iter([task(0), Problem("one"), task(1), Problem("two")]), on_problem)
    await feed.start()
    assert [problem.what for problem in reported] == ["one", "two"]
    assert await feed.take() is None
    assert not feed.exhausted
    await feed.aclose()


async def test_problems_can_be_passed_over() -> None:
    feed = FileFeed(iter([task(0), Problem("one"), task(1)]), lambda problem: True)
    await feed.start()
    assert await drain(feed) == [0, 1]
    await feed.aclose()


async def test_an_error_of_the_source_is_raised_by_the_next_take() -> None:
    def breaks() -> Iterator[Task]:
        yield task(0)
        raise UserError("data.jsonl:2: cannot be read")

    feed = FileFeed(breaks(), lambda problem: True, eager=True)
    await feed.start()
    assert await feed.take() == task(0)
    with pytest.raises(UserError, match="cannot be read"):
        await feed.take()
    await feed.aclose()


async def test_workers_that_wait_get_the_rows_of_a_slow_source_even_where_one_of_them_is_cancelled() -> None:
    go_on = threading.Semaphore(0)

    def source() -> Iterator[Task]:
        for number in range(3):
            go_on.acquire()
            yield task(number)

    feed = FileFeed(source(), lambda problem: True, workers=3, eager=True)
    go_on.release()
    await feed.start()
    assert await feed.take() == task(0)
    first, second, third = (asyncio.create_task(feed.take()) for _ in range(3))
    await asyncio.sleep(0)
    go_on.release()
    while not feed._queue.rows:  # the first is woken for it
        await asyncio.sleep(0)
    first.cancel()
    assert await second == task(1)
    go_on.release()
    assert await third == task(2)
    assert await feed.take() is None
    assert first.cancelled()
    await feed.aclose()


async def test_a_closed_feed_is_empty_even_while_its_source_waits() -> None:
    gate = threading.Event()

    def waits() -> Iterator[Task]:
        yield task(0)
        gate.wait(30)
        yield task(1)

    feed = FileFeed(waits(), lambda problem: True, eager=True)
    await feed.start()
    assert await feed.take() == task(0)
    waiting = asyncio.create_task(feed.take())
    await asyncio.sleep(0)
    feed.close()
    assert await waiting is None
    gate.set()
    await feed.aclose()


async def test_rows_of_a_program_may_come_from_an_async_source() -> None:
    async def rows() -> AsyncIterator[object]:
        for number in range(3):
            yield {**ROW, "id": number}

    def refuse(problem: Problem) -> None:
        raise ConfigError([problem])

    reader = TaskReader(TaskRules(agents=("math",), repeats=2))
    assert await drain(RowsFeed(reader, rows(), refuse)) == [0, 0, 1, 1, 2, 2]
    bad = RowsFeed(TaskReader(TaskRules(agents=("math",))), [ROW, {}], refuse)
    assert await bad.take() is not None
    with pytest.raises(ConfigError, match="rows:2: responses_create_params: is missing"):
        await bad.take()


async def test_lines_of_an_open_file_are_rows_without_its_mark_and_blank_lines() -> None:
    lines = ['\ufeff{"responses_create_params": {}}\n', "\n", '{"responses_create_params": {}, "id": 1}\r\n', "  \n"]
    reader = TaskReader(TaskRules(agents=("math",)))
    assert await drain(RowsFeed(reader, lines, lambda problem: pytest.fail(str(problem)))) == [0, 1]


@pytest.mark.parametrize("rows", ["rows.jsonl", Path("rows.jsonl"), b"{}", ROW])
def test_what_is_not_a_list_of_rows_is_refused_with_what_to_write(rows: Any) -> None:
    with pytest.raises(UserError, match="rows are many, and .* was given") as refused:
        RowsFeed(TaskReader(TaskRules(agents=("math",))), rows, lambda problem: None)
    assert refused.value.hint == "of one row: [row]; of a file: open(path)"
