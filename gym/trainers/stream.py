"""`async with GroupStream(url, rows, options) as groups: async for group in groups`: groups as a trainer wants them."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from gym.collect.attempts import Attempts
from gym.collect.concurrency import make_client
from gym.collect.feed import Rows
from gym.collect.row_tools import RowTools, tools_of_stack
from gym.collect.targets import Targets
from gym.collect.task_reader import TaskReader, TaskRules
from gym.errors import GymError, UserError
from gym.trainers.blend import Blend, BlendPart, Source, check_sources, to_sources
from gym.trainers.group_engine import GroupEngine
from gym.trainers.group_options import GroupOptions, read_options
from gym.trainers.groups import RolloutGroup
from gym.trainers.shares import Ask, Claim, Granted, ask_console, keep_claim
from gym.wire.discovery import Discovery

Given = Rows | str | Path | Sequence[Source]


@dataclass(frozen=True, slots=True)
class PartStats:
    weight: float
    delivered: int = 0
    incomplete: int = 0
    dropped: int = 0  # groups whose rewards were all equal
    rested: int = 0  # rows that the curriculum passed over
    pass_rate: float | None = None  # with a curriculum: over the last groups


@dataclass(frozen=True, slots=True)
class StreamStats:
    """The progress of a stream. A number is of groups unless it says otherwise."""

    version: int
    paused: bool
    paused_reason: str  # by itself: what ails the stack
    delivered: int
    incomplete: int
    dropped: int
    under_way: int
    ready: int
    in_flight: int  # rollouts
    waiting: int  # rollouts that wait for a place
    places: int
    retries: int
    bad_rows: int
    failures: Mapping[str, int] = field(default_factory=dict)  # rollouts, by kind
    cancelled: Mapping[str, int] = field(default_factory=dict)  # rollouts under way, by reason
    parts: Mapping[str, PartStats] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class GroupStream:
    """Begins to collect when it is entered. For one consumer; the trainer's other words may come from anywhere."""

    def __init__(
        self,
        url: str,
        rows: Given,
        options: GroupOptions | Mapping[str, Any] | None = None,
        *,
        agent: str = "",
        token: str = "",
        look: Callable[[], Awaitable[Discovery]] | None = None,
        ask: Ask | None = None,
        tools: RowTools | None = None,
    ) -> None:
        """`agent` is for rows that name none. `look`, `ask` and `tools` are for who is a part of the stack."""
        self.options = options if isinstance(options, GroupOptions) else read_options(options or {})
        sources = to_sources(rows)
        self._sources = [one if one.agent else Source(one.name, one.rows, one.weight, agent) for one in sources]
        check_sources(self._sources)
        self._url, self._token, self._look, self._ask = url, token, look, ask
        self._tools = tools
        self._id = secrets.token_hex(16)
        self._exits = AsyncExitStack()
        self._engine: GroupEngine | None = None
        self._batch: list[RolloutGroup] = []  # taken from the engine, and not yet by the trainer

    async def __aenter__(self) -> Self:
        try:
            await self._open()
        except BaseException:
            await self._exits.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """What is under way is cancelled at every hop."""
        await self._exits.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RolloutGroup:
        found = await self.take(1)
        if not found:
            raise StopAsyncIteration
        return found[0]

    async def take(self, count: int) -> list[RolloutGroup]:
        """A batch: so many groups as they get ready, fewer only at the end. An error waits until nothing is left, and
        a caller cancelled while it waits finds the groups later."""
        while len(self._batch) < count:
            try:
                group = await self._open_engine.take()
            except GymError:
                if not self._batch:
                    raise
                break
            if group is None:
                break
            self._batch.append(group)
        batch, self._batch = self._batch[:count], self._batch[count:]
        return batch

    # A weight update.

    @property
    def version(self) -> int:
        return self._open_engine.pace.version

    def set_version(self, version: int) -> None:
        """The policy has new weights. Rollouts that are too old now are restarted or marked: `max_stale`, `stale`."""
        self._open_engine.set_version(version)

    def pause(self) -> None:
        """No attempt begins from now on; what is under way goes on."""
        self._open_engine.pace.pause()

    async def drain(self, timeout: float | None = None) -> int:
        """Pauses, and returns when nothing is under way. What has not ended in time is cancelled and restarted after
        `resume`: how many these were."""
        self.pause()
        try:
            async with asyncio.timeout(self.options.drain if timeout is None else timeout):
                await self._open_engine.pace.wait_until_empty()
        except TimeoutError:
            called_off = self._open_engine.cancel_under_way("drained")
            await self._open_engine.pace.wait_until_empty()
            return called_off
        return 0

    def resume(self, version: int | None = None) -> None:
        if version is not None:
            self.set_version(version)
        self._open_engine.pace.resume()

    # Other wishes in mid-run.

    def call_off(self) -> int:
        """Cancels the groups that have begun, as a batch is full: they are delivered incomplete. How many rollouts."""
        return self._open_engine.cancel_under_way("called off")

    def set_weights(self, weights: Mapping[str, float]) -> None:
        """Of the blend's parts, from the next row on."""
        self._open_engine.blend.set_weights(weights)

    def stats(self) -> StreamStats:
        engine = self._open_engine
        parts = {part.name: _part_stats(part) for part in engine.blend.parts}
        return StreamStats(
            version=engine.pace.version,
            paused=engine.pace.paused,
            paused_reason=engine.paused_reason,
            delivered=engine.delivered,
            incomplete=sum(one.incomplete for one in parts.values()),
            dropped=sum(one.dropped for one in parts.values()),
            under_way=len(engine.growing),
            ready=len(engine.ready),
            in_flight=engine.pace.inside,
            waiting=engine.pace.waiting,
            places=engine.pace.size,
            retries=engine.attempts.retries,
            bad_rows=engine.blend.bad,
            failures=dict(engine.failures),
            cancelled=dict(engine.called_off),
            parts=parts,
        )

    async def _open(self) -> None:
        if self._engine is not None:
            raise UserError("this stream was opened before", "make another one: it begins with the first row")
        options = self.options
        http = make_client(options.concurrency)
        self._exits.push_async_callback(http.aclose)
        targets = Targets(http, self._url, self._token, routed=options.through_router, read=self._look)
        await targets.connect()
        for source in self._sources:
            targets.check_agent(source.agent)
        rules = TaskRules(
            agents=frozenset(targets.agents),
            repeats=options.size + options.extra,
            params=tuple(options.params.items()),
            tools=self._tools or await tools_of_stack(targets, logs=True),
        )
        engine = GroupEngine(
            Attempts(http, targets, options), Blend(self._sources, TaskReader(rules), options), options
        )
        self._engine = engine
        beside = []
        if options.share is not None:
            ask = self._ask or ask_console(http, self._url, self._token)
            beside.append(keep_claim(ask, self._claim, self._adopt, engine.pace.hungry))
        self._exits.push_async_callback(_end, asyncio.create_task(engine.run(*beside), name="groups"))

    def _claim(self) -> Claim:
        pace, options = self._open_engine.pace, self.options
        wanted = pace.inside if pace.paused else pace.inside + pace.waiting
        return Claim(
            id=self._id, name=options.name, share=options.share or 1.0, concurrency=options.concurrency, wanted=wanted
        )

    def _adopt(self, granted: Granted) -> None:
        self._open_engine.pace.resize(max(1, min(granted.places, self.options.concurrency)))

    @property
    def _open_engine(self) -> GroupEngine:
        if self._engine is None:
            raise UserError("this stream is not open", "use it so: async with GroupStream(...) as groups")
        return self._engine


def _part_stats(part: BlendPart) -> PartStats:
    return PartStats(part.weight, part.delivered, part.incomplete, part.dropped, part.rested, part.pass_rate.rate)


async def _end(run: asyncio.Task[None]) -> None:
    run.cancel()
    await asyncio.wait({run})
    if not run.cancelled():
        run.exception()  # read, so that asyncio does not warn
