"""A collector's part in a run that others share: its name, its queue, the file of inputs that it writes."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

from gym.collect.collect_options import CollectOptions
from gym.collect.output_files import OutputFiles
from gym.collect.queue.queue_feed import QueueFeed, Scanned
from gym.collect.queue.redis_queue import RedisQueue
from gym.collect.queue.task_cursor import TaskCursor
from gym.collect.result_file import result_file
from gym.collect.sidecar import note_queue, read_queue
from gym.collect.task_reader import Task, TaskReader, TaskRules
from gym.data.line_source import read_lines
from gym.errors import Problem


class SharedRun:
    def __init__(
        self,
        options: CollectOptions,
        files: tuple[str, ...],
        rules: TaskRules,
        output: OutputFiles,
        on_notice: Callable[[str, bool], None],
    ) -> None:
        assert options.queue is not None
        self._options, self._files, self._rules, self._output = options, files, rules, output
        self._on_notice = on_notice
        self._earlier = read_queue(output.paths)
        self._queue = RedisQueue(options.queue, self._earlier.get("collector") or secrets.token_hex(6))
        self._lease = options.queue.lease

    def feed(self, reader: TaskReader, on_problem: Callable[[Problem], bool]) -> QueueFeed:
        return QueueFeed(
            self._queue,
            lambda: self._scan(reader),
            TaskCursor(self._all_tasks),
            self._join,
            on_problem,
            self._on_notice,
            workers=self._options.concurrency,
            lease=self._lease,
            max_pause=self._options.max_pause,
        )

    def _scan(self, reader: TaskReader) -> Iterator[tuple[Task, bool] | Problem]:
        """The file of inputs is there in whole or not at all: a merge takes the whole run's from any collector."""
        with result_file(self._output.paths.materialized, replace=True) as stream:
            yield from reader.read_all(read_lines(self._files), stream.write)

    def _all_tasks(self) -> Iterator[Task]:
        for item in TaskReader(self._rules).read_all(read_lines(self._files)):
            if not isinstance(item, Problem):
                yield item[0]

    async def _join(self, scanned: Scanned) -> None:
        assert self._options.queue is not None
        identity = {**self._output.identity, "keys": scanned.digest}
        new = await self._queue.join(identity, scanned.total, fresh=self._options.fresh)
        queue = {"collector": self._queue.collector, "name": self._options.queue.name, "token": self._queue.token}
        note_queue(self._output.paths, queue)
        known = self._earlier.get("name") == queue["name"] and self._earlier.get("token", "") != queue["token"]
        if known and not self._options.fresh:
            self._on_notice(f"{self._queue.place} was lost and is rebuilt {_from(len(scanned.done), new)}", False)


def _from(done: int, new: bool) -> str:
    text = f"from the files: {done:,} rollouts of this collector are in it"
    return f"{text}; start the others with their own -o, or what they have done is done again" if new else text
