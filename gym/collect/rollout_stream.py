"""Rollouts as a program wants them: rows in, finished rollouts out as they finish. Nothing touches the disk."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from typing import Any

from gym.collect.attempts import Attempts, TaskResult
from gym.collect.circuit_breaker import GaveUp
from gym.collect.collect_options import AttemptOptions
from gym.collect.concurrency import make_client
from gym.collect.feed import Feed, Rows, RowsFeed
from gym.collect.keys import parse_key
from gym.collect.row_tools import RowTools, tools_of_stack
from gym.collect.run_replies import failure_line, rollout_line
from gym.collect.stack_settings import read_settings
from gym.collect.targets import Targets
from gym.collect.task_reader import Task, TaskReader, TaskRules
from gym.errors import ConfigError, InfraError, Problem, first_error
from gym.http.pool import HttpClient
from gym.http.tracing import start_tracing, stop_tracing
from gym.wire.failures import RolloutError
from gym.wire.pieces import join_body
from gym.wire.telemetry import COLLECTOR, read_telemetry


@dataclass(frozen=True, slots=True)
class Rollout:
    """A finished attempt: a result with its reward, or the failure of the last attempt."""

    row: int  # the place of its row among those given, from 0
    repeat: int
    key: str
    agent: str
    attempt: int
    seconds: float
    reward: float | None = None
    result: dict[str, Any] | None = None
    failure: RolloutError | None = None
    line: bytes = field(default=b"", repr=False)  # what `gym rollouts` would have written: `_gym` has its origin


async def collect(
    stack_url: str,
    rows: Rows,
    *,
    agent: str = "",
    repeats: int = 1,
    token: str = "",
    options: AttemptOptions | None = None,
) -> AsyncGenerator[Rollout, None]:
    """Rollouts in the order in which they finish. A row is a mapping or its JSON text; a bad one ends it.

    `tools: auto` in a row's parameters stands for the tools of its agent's server.
    """
    options = options or AttemptOptions()
    async with AsyncExitStack() as stack:
        http = make_client(options.concurrency)
        stack.push_async_callback(http.aclose)
        targets = Targets(http, stack_url, token, routed=options.through_router)
        await targets.connect()
        targets.check_agent(agent)
        settings = await read_settings(targets)
        tracer = start_tracing(read_telemetry(settings.telemetry, os.environ), COLLECTOR)
        stack.push_async_callback(asyncio.to_thread, stop_tracing, tracer)
        tools = await tools_of_stack(targets, settings, logs=True)
        rollouts = collect_from(targets, http, rows, agent=agent, repeats=repeats, options=options, tools=tools)
        await stack.enter_async_context(aclosing(rollouts))
        async for rollout in rollouts:
            yield rollout


async def collect_from(
    targets: Targets,
    http: HttpClient,
    rows: Rows,
    *,
    agent: str,
    repeats: int,
    options: AttemptOptions,
    tools: RowTools,
) -> AsyncGenerator[Rollout, None]:
    """`collect` with targets that are connected already."""
    async with AsyncExitStack() as stack:
        attempts = Attempts(http, targets, options)
        attempts.open(_ignore)
        reader = TaskReader(TaskRules(agents=frozenset(targets.agents), agent=agent, repeats=repeats, tools=tools))
        feed = RowsFeed(reader, rows, _refuse)
        ready: asyncio.Queue[Rollout | None] = asyncio.Queue()
        room = asyncio.Semaphore(options.concurrency)  # a slow consumer holds up the workers
        run = asyncio.create_task(_run(attempts, _worker(attempts, feed, ready, room)))
        run.add_done_callback(lambda _: ready.put_nowait(None))
        stack.push_async_callback(_cancel, run)
        while (rollout := await ready.get()) is not None:
            room.release()
            yield rollout
        await run


def ended_to_rollout(task: Task, ended: TaskResult) -> Rollout:
    """What became of a task, with the line that `gym rollouts` would have written."""
    rolled, failure = ended.rolled, ended.failure
    line = join_body(rollout_line(rolled, task, ended.how)) if rolled else b""
    return Rollout(
        row=int(task.where.rpartition(":")[2]) - 1,
        repeat=parse_key(task.key)[1],
        key=task.key,
        agent=task.agent,
        attempt=ended.how.attempt,
        seconds=ended.how.seconds,
        reward=rolled.reward if rolled else None,
        result=rolled.parsed if rolled else None,
        failure=failure,
        line=failure_line(failure, task, ended.how) if failure else line,
    )


async def _run(attempts: Attempts, work: Callable[[], Coroutine[None, None, None]]) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(attempts.end_pauses()), group.create_task(attempts.targets.keep_fresh())]
            workers = [group.create_task(work()) for _ in range(attempts.options.concurrency)]
            await asyncio.wait(workers)
            for helper in helpers:
                helper.cancel()
    except BaseExceptionGroup as errors:
        error = first_error(errors)
        raise InfraError(str(error), "see gym ps, gym logs") if isinstance(error, GaveUp) else error from None


def _worker(
    attempts: Attempts, feed: Feed, ready: asyncio.Queue[Rollout | None], room: asyncio.Semaphore
) -> Callable[[], Coroutine[None, None, None]]:
    async def work() -> None:
        while (task := await feed.take()) is not None:
            ended = await attempts.run(task)
            if ended is not None and (ended.rolled or ended.failure):
                await room.acquire()
                ready.put_nowait(ended_to_rollout(task, ended))

    return work


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


def _refuse(problem: Problem) -> None:
    raise ConfigError([problem])


def _ignore(agent: str, reason: str) -> None:
    return None
