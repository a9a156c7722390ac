"""A collection over a simulated cluster: the real collector and the real reader, with another clock and client."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import orjson

from gym.collect.attempts import Attempts
from gym.collect.collect_options import CollectOptions
from gym.collect.collector import Collector
from gym.collect.events import Event, Notice
from gym.collect.feed import FileFeed, _batches
from gym.collect.keys import DoneKeys, parse_key
from gym.collect.output_files import OutputFiles
from gym.collect.row_tools import RowTools
from gym.collect.sidecar import OutputPaths
from gym.collect.sink import Sink
from gym.collect.tally import Tally
from gym.collect.targets import Targets
from gym.collect.task_reader import Task, TaskReader, TaskRules
from gym.data.line_source import Line
from gym.errors import Problem
from gym.http.pool import HttpClient
from tests.support.simulated import simulate
from tests.support.simulated_cluster import Cluster, SimulatedStack, rows
from tests.support.simulated_parts import Part, ReplicaLock
from tests.support.simulated_settings import CpuTimes, Outage, Result, Scale, Work

EPOCH = 1.8e9
REPEATS = 64
MIDDLE = (0.3, 0.6)  # of the rollouts: before it the cluster is not full, after it there are none left to begin


def simulate_collection(
    scale: Scale,
    work: Work,
    cpu: CpuTimes,
    rollouts: int,
    *,
    outage: Outage | None = None,
    repeats: int = REPEATS,
    seed: int = 0,
) -> Result:
    async def run() -> Result:
        clock = asyncio.get_running_loop().time
        with patch.object(time, "monotonic", clock), patch.object(time, "time", lambda: EPOCH + clock()):
            return await SimulatedCollection(scale, work, cpu, rollouts, outage, repeats, seed).run()

    return simulate(run(), seed)


class SimulatedCollection:
    def __init__(
        self, scale: Scale, work: Work, cpu: CpuTimes, rollouts: int, outage: Outage | None, repeats: int, seed: int
    ) -> None:
        self.cluster = Cluster(scale, work, cpu, outage, seed)
        self.rollouts = max(rollouts // repeats, 1) * repeats
        self.repeats = repeats
        self.done = DoneKeys()
        self.ended: Counter[str] = Counter()
        self.latency = 0.0
        self.pauses = 0
        self._meter = Meter(self.cluster, self.rollouts)
        parts = scale.stacks * scale.collectors
        self.collectors = [
            SimulatedCollector(self, self.cluster.stacks[part % scale.stacks], (part + 1, parts))
            for part in range(parts)
        ]

    async def run(self) -> Result:
        brokers = [one.broker for one in self.cluster.stacks if one.broker is not None]
        for broker in brokers:
            await broker.start()
        async with asyncio.TaskGroup() as group:
            for one in self.collectors:
                group.create_task(one.run())
        now = asyncio.get_running_loop().time()
        for broker in brokers:
            await broker.stop()
        return self._sum_up(now)

    def note_line(self, line: bytes, *, failed: bool) -> None:
        """What a sink gets: whole lines, each key once."""
        stamp = orjson.loads(line)["_gym"]
        if not self.done.add(*parse_key(stamp["key"])):
            raise AssertionError(f"{stamp['key']} ended twice")
        self.ended["failed" if failed else "done"] += 1
        self.latency += stamp["seconds"]
        self._meter.note(self.ended.total())

    def _sum_up(self, now: float) -> Result:
        cluster, ended = self.cluster, self.ended.total()
        whole: dict[str, float] = {}
        for part in [*cluster.parts(), *(one.process for one in self.collectors)]:
            used = part.worked(now) / (part.places * now)
            whole[part.kind] = max(whole.get(part.kind, 0.0), used)
        return Result(
            rollouts=ended,
            failed=self.ended["failed"],
            attempts=cluster.attempts,
            seconds=now,
            rate=self._meter.rate,
            latency=self.latency / max(ended, 1),
            in_flight=cluster.area / now,
            used=self._meter.used,
            most_used=whole,
            pauses=self.pauses,
            retries=sum(one.attempts.retries for one in self.collectors),
        )


class SimulatedCollector:
    """One `gym rollouts`: a process of its own, that has one core."""

    def __init__(self, run: SimulatedCollection, stack: SimulatedStack, shard: tuple[int, int]) -> None:
        cluster = run.cluster
        shared = cluster.nodes[0].cores if cluster.work.beside else Part("collector's cores", 1)
        self.process = ReplicaLock("collector", shared)
        run._meter.parts.append(self.process)
        self._run = run
        options = CollectOptions(
            stack_url=stack.url,
            inputs=("rows.jsonl",),
            output=Path("rollouts.jsonl"),
            concurrency=cluster.scale.concurrency,
            repeats=run.repeats,
            shard=shard,
            through_router=cluster.scale.routed,
            aggregate=False,  # there is no output to sum up
        )
        http = cast(HttpClient, ClientOfCollector(cluster, self.process))
        self.targets = Targets(http, stack.url, routed=options.through_router, read=stack.read)
        self.attempts = Attempts(http, self.targets, options)
        output = OutputFiles(OutputPaths.beside(options.output), -1, -1)
        self._collector = Collector(
            options, options.inputs, self.targets, self.attempts, output, Tally(), self._on_event, RowTools()
        )
        self._options = options

    async def run(self) -> None:
        await self.targets.connect()
        self.attempts.open(self._collector._report_pause)
        for breaker in self.attempts.breakers.values():
            breaker._clock = asyncio.get_running_loop().time
        feed = SimulatedFeed(self._items(), lambda _: True, workers=self._options.concurrency)
        await feed.start()
        done, failed = (cast(Sink, SimulatedSink(self._run, failed=failed)) for failed in (False, True))
        helpers = [asyncio.create_task(one) for one in (self.attempts.end_pauses(), self.targets.keep_fresh())]
        await self._collector._work_all(feed, done, failed)
        for helper in helpers:
            helper.cancel()
        for helper in helpers:
            with suppress(asyncio.CancelledError):
                await helper

    def _items(self) -> Iterator[Task | Problem]:
        options = self._options
        rules = TaskRules(agents=frozenset(self.targets.agents), repeats=options.repeats, shard=options.shard)
        lines = rows(self._run.rollouts // options.repeats)
        return TaskReader(rules).read(Line(raw, "rows.jsonl", number) for number, raw in enumerate(lines, 1))

    def _on_event(self, event: Event) -> None:
        self._run.pauses += isinstance(event, Notice) and event.paused


class ClientOfCollector:
    """The cluster, as one collector reaches it: each request takes its CPU."""

    def __init__(self, cluster: Cluster, process: ReplicaLock) -> None:
        self._cluster, self._process = cluster, process
        self.expect_health, self.is_lost = cluster.expect_health, cluster.is_lost

    async def request(self, method: str, url: str, **given: Any) -> Any:
        cluster = self._cluster
        if method != "POST":
            return await cluster.request(method, url, **given)
        cluster.count(+1)
        try:
            await self._process.serve(cluster.cpu.collector.draw(cluster.chance))
            return await cluster.request(method, url, **given)
        finally:
            cluster.count(-1)


class SimulatedFeed(FileFeed):
    """Reads when the thread would: at once, in the event loop, where the real thread waits for room."""

    async def start(self) -> None:
        self._reads = self._read_in_steps()
        self._room = cast(Any, _Room(self))
        for _ in range(2 + -(-(self._enough) // 64)):
            self.read_next()
        await self._first

    def read_next(self) -> None:
        next(self._reads, None)

    def _read_in_steps(self) -> Iterator[None]:
        for batch in _batches(self._items, eager=False):
            self._loop.call_soon(self._deliver, batch)
            yield
        self._loop.call_soon(self._end, None)
        yield


class _Room:
    """Instead of the semaphore that the thread waits at."""

    def __init__(self, feed: SimulatedFeed) -> None:
        self._feed = feed

    def release(self) -> None:
        self._feed.read_next()


class SimulatedSink:
    """Fits `Sink`, as far as workers use one."""

    is_full = False

    def __init__(self, run: SimulatedCollection, *, failed: bool) -> None:
        self._run, self._failed = run, failed

    def put(self, line: bytes) -> None:
        self._run.note_line(line, failed=self._failed)


class Meter:
    """What the parts do in the middle of a run, by kind."""

    def __init__(self, cluster: Cluster, rollouts: int) -> None:
        self.parts: list[Part | ReplicaLock] = list(cluster.parts())
        self._from, self._to = (int(rollouts * share) for share in MIDDLE)
        self._began = 0.0
        self._before: list[float] = []
        self.used: dict[str, float] = {}
        self.rate = 0.0

    def note(self, ended: int) -> None:
        if ended == self._from:
            self._began = asyncio.get_running_loop().time()
            self._before = self._look()
        if ended == self._to:
            self._end()

    def _look(self) -> list[float]:
        now = asyncio.get_running_loop().time()
        return [one.worked(now) for one in self.parts]

    def _end(self) -> None:
        seconds = max(asyncio.get_running_loop().time() - self._began, 1e-9)
        worked: defaultdict[str, float] = defaultdict(float)
        places: Counter[str] = Counter()
        for part, before, after in zip(self.parts, self._before, self._look(), strict=True):
            worked[part.kind] += after - before
            places[part.kind] += part.places
        self.used = {kind: worked[kind] / (places[kind] * seconds) for kind in places}
        self.rate = (self._to - self._from) / seconds
