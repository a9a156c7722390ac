"""One run: workers between a feed and two sinks. Every (row, repeat) ends once, as a rollout or as a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from gym.collect import events
from gym.collect.aggregates import RowsSoFar, aggregate_agents, read_output
from gym.collect.attempts import Attempts, TaskResult
from gym.collect.circuit_breaker import GaveUp
from gym.collect.collect_options import CollectOptions
from gym.collect.concurrency import first_of
from gym.collect.events import BadRow, Notice, OnEvent, Progress, Summary
from gym.collect.feed import FileFeed
from gym.collect.folded_problems import fold_problems
from gym.collect.output_files import OutputFiles
from gym.collect.progress_report import ProgressReport
from gym.collect.provenance import TOOL_ERRORS, differences
from gym.collect.queue.queue_feed import QueueFeed
from gym.collect.queue.redis_queue import How
from gym.collect.queue.shared_run import SharedRun
from gym.collect.result_file import write_result
from gym.collect.row_tools import RowTools
from gym.collect.run_replies import failure_line, is_terminal, rollout_fields, rollout_line
from gym.collect.sink import Sink
from gym.collect.stop import Stopped, StopSwitch
from gym.collect.tally import Tally
from gym.collect.targets import Targets
from gym.collect.task_reader import Task, TaskReader, TaskRules
from gym.data.line_source import STDIN, count_lines, read_lines
from gym.errors import ConfigError, InfraError, Problem, UserError, first_error

_TICK_SECONDS = 0.2
_AGGREGATE_SECONDS = 120.0
_MAX_KEPT = 1000  # problems in the summary; all are counted and reported
_MAX_SHOWN = 20


class Collector:
    """`collect_rollouts` makes it and runs it once."""

    def __init__(
        self,
        options: CollectOptions,
        files: tuple[str, ...],
        targets: Targets,
        attempts: Attempts,
        output: OutputFiles,
        tally: Tally,
        on_event: OnEvent,
        tools: RowTools,
    ) -> None:
        self._options = options
        self._files = files
        self._targets = targets
        self._attempts = attempts
        self._output = output
        self._tally = tally
        self._on_event = on_event
        self._tools = tools
        self._rows = RowsSoFar(complete=options.aggregate and not output.paths.rollouts.stat().st_size)
        self._warned: set[str] = set()  # agents
        rules = _rules(options, targets, tools)
        self._reader = TaskReader(rules, done=output.done)
        self._shared = SharedRun(options, files, rules, output, self._report_queue) if options.queue else None
        self._queue: QueueFeed | None = None
        self._bad_rows: list[Problem] = []
        self._stopping = False
        self._exit_code = events.EXIT_DONE
        self._reason = ""
        self._error: InfraError | None = None
        self._workers: asyncio.Task[None] | None = None
        self._report = ProgressReport(targets, attempts.run_id, output.paths.rollouts, self._progress)

    async def run(self, stop: StopSwitch) -> Summary:
        try:
            return await self._run(stop)
        finally:
            self._rows.close()

    async def _run(self, stop: StopSwitch) -> Summary:
        self._attempts.open(self._report_pause)
        feed = self._make_feed()
        try:
            await first_of(feed.start(), stop.drain.wait())
            if self._exit_code:
                raise ConfigError(
                    fold_problems(self._bad_rows, _MAX_SHOWN), "fix them, or go on without them: --skip-bad-rows"
                )
            self._warn_of_tools()
            await self._collect(feed, stop)
        finally:
            await feed.aclose()
        error = self._error or (self._queue.error if self._queue else None)
        if error is not None:
            raise error
        if feed.exhausted and not self._reader.rows:
            raise UserError(f"{', '.join(self._files)}: no rows", "a data set has one JSON object on each line")
        self._set_total(feed)
        metrics_file = await self._aggregate(stop) if self._is_whole(feed) else None
        return self._sum_up(metrics_file)

    def _make_feed(self) -> FileFeed | QueueFeed:
        if self._shared is not None:
            self._queue = self._shared.feed(self._reader, self._report_bad_row)
            return self._queue
        eager = STDIN in self._files
        return FileFeed(self._items(), self._report_bad_row, workers=self._options.concurrency, eager=eager)

    def _items(self) -> Iterator[Task | Problem]:
        """Runs in the feed's thread. Every task is materialized, done ones too: the file holds the whole input."""
        path = self._output.paths.materialized
        try:
            with path.open("wb", buffering=1 << 20) as stream:
                yield from self._reader.read(read_lines(self._files), stream.write)
        except OSError as error:
            hint = "make room and run the same command: it resumes where it stopped"
            raise InfraError(f"cannot write to {path}: {error.strerror or error}", hint) from error

    async def _collect(self, feed: FileFeed | QueueFeed, stop: StopSwitch) -> None:
        """Runs the workers until the feed is empty, and the helpers beside them."""
        self._tally.start_clock()
        paths = self._output.paths
        on_disk = self._queue.on_disk if self._queue else None
        rollouts = Sink(paths.rollouts, self._output.rollouts, self._fail, on_disk)
        failures = Sink(paths.failures, self._output.failures, self._fail, on_disk)
        try:
            async with asyncio.TaskGroup() as group:
                self._workers = group.create_task(self._work_all(feed, rollouts, failures))
                beside = [self._attempts.end_pauses(), self._targets.keep_fresh(), self._report.send_regularly()]
                beside += [self._stop_on_request(stop, feed), self._tick(feed)]
                beside += [self._queue.keep() if self._queue else self._estimate_total(feed)]
                helpers = [group.create_task(helper) for helper in beside]
                await asyncio.wait({self._workers})
                for helper in helpers:
                    helper.cancel()
        except BaseExceptionGroup as errors:
            self._end_by(first_error(errors))
        finally:
            await rollouts.aclose()
            await failures.aclose()
            await self._report.send_end()
            self._error = self._error or rollouts.error or failures.error

    async def _work_all(self, feed: FileFeed | QueueFeed, rollouts: Sink, failures: Sink) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self._options.concurrency):
                group.create_task(self._work(feed, rollouts, failures))

    async def _work(self, feed: FileFeed | QueueFeed, rollouts: Sink, failures: Sink) -> None:
        while (task := await feed.take()) is not None:
            ended = await self._attempts.run(task)
            if ended is not None:
                self._write(task, ended, rollouts, failures)
                for sink in (rollouts, failures):
                    if sink.is_full:
                        await sink.wait_for_room()
            feed.finish(task)

    def _write(self, task: Task, ended: TaskResult, rollouts: Sink, failures: Sink) -> None:
        if ended.rolled is not None:
            self._tally.add_done(task.agent, ended.rolled.reward)
            if TOOL_ERRORS in ended.how.facts:
                self._tally.tool_errors[task.agent] += ended.how.facts[TOOL_ERRORS]
            line = rollouts.put(rollout_line(ended.rolled, task, ended.how))
            self._settle(task, "done", rollouts, line)
            if self._rows.complete:
                self._rows.add(rollout_fields(ended.rolled, task))
        elif ended.failure is not None:
            self._tally.add_failure(task.agent, ended.failure.kind)
            line = failures.put(failure_line(ended.failure, task, ended.how))
            self._settle(task, "bad" if is_terminal(ended.failure) else "again", failures, line)
        else:
            self._tally.dropped += 1
            self._settle(task, "bad")

    def _settle(self, task: Task, how: How, sink: Sink | None = None, line: int = 0) -> None:
        if self._queue is not None:
            self._queue.settle(task, how, sink.path if sink else None, line)

    # Beside the workers.

    async def _stop_on_request(self, stop: StopSwitch, feed: FileFeed | QueueFeed) -> None:
        await stop.drain.wait()
        self._stopping = True
        self._end(events.EXIT_STOPPED, "stopped")
        feed.close()
        self._attempts.stop()
        seconds = f"{self._options.drain:g} s for the rollouts under way"
        self._on_event(Notice(f"stopping: {seconds}; Ctrl-C once more drops them"))
        with suppress(TimeoutError):
            async with asyncio.timeout(self._options.drain):
                await stop.cancel.wait()
        self._cancel()

    async def _tick(self, feed: FileFeed | QueueFeed) -> None:
        known = self._targets.digests
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self._set_total(feed)
            self._on_event(self._progress())
            self._warn_of_tools()
            if changes := differences(known, self._targets.digests):
                known = self._targets.digests
                self._on_event(Notice(f"the stack has changed; each line names its own: {'; '.join(changes)}"))

    async def _estimate_total(self, feed: FileFeed | QueueFeed) -> None:
        """An estimate by counting lines, until the input is read to its end."""
        lines = await asyncio.to_thread(count_lines, self._files, lambda: not (self._workers and self._workers.done()))
        if lines is not None and not feed.exhausted:
            rows = min(lines, self._options.limit or lines)
            self._tally.total = rows * self._options.repeats // self._options.shard[1]

    # What they report.

    def _report_bad_row(self, problem: Problem) -> bool:
        self._tally.bad_rows += 1
        if len(self._bad_rows) < _MAX_KEPT:
            self._bad_rows.append(problem)
        self._on_event(BadRow(problem))
        if not self._options.skip_bad_rows:
            self._end(events.EXIT_FAILED, f"a row is bad, no more were taken: {problem}")
        return self._options.skip_bad_rows

    def _warn_of_tools(self) -> None:
        """Once for each agent, as soon as a row of it was read that offers no tool."""
        for agent in list(self._tools.missing.keys() - self._warned):
            self._warned.add(agent)
            self._on_event(Notice(self._tools.warning(agent)))

    def _report_pause(self, agent: str, reason: str) -> None:
        text = f"paused: {reason}" if reason else f"{agent} works again"
        self._on_event(Notice(text, paused=bool(reason)))

    def _report_queue(self, text: str, paused: bool) -> None:
        self._on_event(Notice(text, paused=paused))

    def _fail(self, error: InfraError) -> None:
        self._error = self._error or error
        self._cancel()

    def _end_by(self, error: BaseException) -> None:
        if not isinstance(error, GaveUp):
            raise error
        self._end(events.EXIT_GAVE_UP, str(error))

    def _end(self, code: int, reason: str) -> None:
        if not self._exit_code:
            self._exit_code, self._reason = code, reason

    def _cancel(self) -> None:
        if self._workers is not None:
            self._workers.cancel()

    # At the end.

    def _is_whole(self, feed: FileFeed | QueueFeed) -> bool:
        return feed.exhausted and not self._exit_code and self._options.aggregate

    async def _aggregate(self, stop: StopSwitch) -> Path | None:
        path = self._output.paths.metrics
        agents = self._rows.agents
        try:
            if not self._rows.complete:
                agents = await asyncio.to_thread(read_output, self._output.paths.rollouts, stop.check)
        except Stopped:
            return None
        entries = await aggregate_agents(agents, self._ask_metrics)
        write_result(path, orjson.dumps(entries, option=orjson.OPT_INDENT_2))
        return path

    async def _ask_metrics(self, agent: str, body: bytes) -> dict[str, Any] | None:
        reply = await self._targets.post(agent, "/aggregate_metrics", body, timeout=_AGGREGATE_SECONDS)
        try:
            metrics = orjson.loads(reply.body) if reply is not None else None
        except orjson.JSONDecodeError:
            return None
        return metrics if isinstance(metrics, dict) and metrics.get("agent_metrics") else None

    def _sum_up(self, metrics_file: Path | None) -> Summary:
        self._warn_of_tools()
        if self._tally.nothing_succeeded:
            self._end(events.EXIT_FAILED, "no rollout succeeded")
        elif 0 < self._reader.rows == self._tally.bad_rows:
            self._end(events.EXIT_FAILED, "every row is bad")
        for agent, count in self._tally.tool_errors.items():
            text = f"{agent}: {count:,} tool calls failed inside their server; the policy read the errors"
            self._on_event(Notice(f"{text}, the server's log (gym logs) says where"))
        progress = self._progress()
        self._on_event(progress)
        return Summary(
            exit_code=self._exit_code,
            progress=progress,
            output=self._output.paths.rollouts,
            failures_file=self._output.paths.failures if progress.failed else None,
            metrics_file=metrics_file,
            bad_rows=tuple(self._bad_rows),
            reason=self._reason,
        )

    def _progress(self) -> Progress:
        attempts, queue = self._attempts, self._queue
        progress = self._tally.progress(
            in_flight=attempts.in_flight,
            retries=attempts.retries,
            paused_reason=attempts.paused_reason or (queue.paused_reason if queue else ""),
            held=self._targets.held,
            stopping=self._stopping,
        )
        return replace(progress, queue=queue.view, eta_seconds=queue.eta_seconds) if queue else progress

    def _set_total(self, feed: FileFeed | QueueFeed) -> None:
        if feed.exhausted and self._queue is None:
            self._tally.total = self._reader.total


def _rules(options: CollectOptions, targets: Targets, tools: RowTools) -> TaskRules:
    return TaskRules(
        agents=frozenset(targets.agents),
        agent=options.agent,
        limit=options.limit,
        repeats=options.repeats,
        shard=options.shard,
        params=tuple(options.params.items()),
        tools=tools,
        one_file=True,
    )
