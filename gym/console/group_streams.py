"""`POST /rollouts?size=8`: groups instead of single rollouts, and `/rollouts/<stream>` for a weight update in between.

The reply is NDJSON, one line a group; the last line is a summary. A client that reads slowly slows the stream.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import IO, Annotated, Any, Final

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gym.collect.row_tools import RowTools
from gym.collect.tally import Tally
from gym.console.collections import Collections
from gym.console.discovery_sources import DiscoverySources
from gym.errors import GymError, UserError
from gym.labels import HEADER_STREAM
from gym.trainers import GroupOptions, GroupStream, RolloutGroup, Source, read_options
from gym.trainers.blend import check_sources
from gym.trainers.group_options import read_known
from gym.trainers.shares import ClaimBoard
from gym.wire.failures import RolloutError

MAX_STREAMS: Final = 64
KEYS: Final = ("size", "sources")  # either of them asks for groups


@dataclass(frozen=True, slots=True)
class GroupOrder:
    sources: list[Source]
    options: GroupOptions


@dataclass(frozen=True, slots=True)
class WireSource:
    """A part of a blend as JSON has it. Its rows are a list: a path would be one of the console's own files."""

    name: str
    """Its name, which every group says."""
    rows: list[Any]
    """Its rows, as objects."""
    weight: float = 1.0
    """Its share of the groups, beside the weights of the others."""
    agent: str = ""
    """The agent of its rows that name none."""


class StreamCommand(BaseModel):
    """A trainer's commands in mid-stream, carried out in the order of the fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pause: bool = False
    """Begin nothing more; what is under way goes on."""
    drain: Annotated[float, Field(gt=0, le=86_400)] | None = None
    """Pause, and wait so many seconds at most for what is under way; what is left is called off."""
    call_off: bool = False
    """Call off what is under way."""
    weights: dict[str, float] | None = None
    """New weights of the sources, by name."""
    version: int | None = None
    """The policy's version from now on."""
    resume: bool = False
    """Go on after a pause."""


@dataclass(slots=True)
class OpenStreams:
    """Those of this console, by an id that only their clients know."""

    claims: ClaimBoard = field(default_factory=ClaimBoard)
    found: dict[str, GroupStream] = field(default_factory=dict)

    def find(self, id: str) -> GroupStream:
        if id not in self.found:
            raise UserError(f"no stream {id[:64]!r} is open", "its id is in the x-gym-stream header of POST /rollouts")
        return self.found[id]

    async def execute(self, id: str, body: bytes) -> dict[str, Any]:
        """The state of the stream after the commands."""
        stream = self.find(id)
        try:
            command = StreamCommand.model_validate_json(body)
        except ValidationError as error:
            found = error.errors()[0]
            where = ".".join(map(str, found["loc"])) or "body"
            hint = f"there are: {', '.join(StreamCommand.model_fields)}"
            raise UserError(f"{where}: {found['msg']}", hint) from None
        if command.pause:
            stream.pause()
        called_off = await stream.drain(command.drain) if command.drain is not None else 0
        if command.call_off:
            called_off = stream.call_off()
        if command.weights is not None:
            stream.set_weights(command.weights)
        if command.version is not None:
            stream.set_version(command.version)
        if command.resume:
            stream.resume()
        return {**stream.stats().to_dict(), "called_off": called_off}


def read_group_order(rows: Iterable[object] | None, fields: Mapping[str, Any]) -> GroupOrder:
    """From the keys beside the rows. `agent` is for rows that name none."""
    given = dict(fields)
    sources, agent = given.pop("sources", None), str(given.pop("agent", ""))
    if "repeats" in given:
        raise UserError("repeats is an option of single rollouts", "groups have a size: leave repeats out")
    if (rows is None) == (sources is None):
        raise UserError("say either rows or sources", 'send {"rows": [...], "size": 8}')
    if rows is not None:
        return GroupOrder([Source("rows", rows, agent=agent)], read_options(given))
    if not isinstance(sources, list) or not all(isinstance(one, dict) for one in sources):
        raise UserError("`sources` is a list of objects", 'send [{"name": "math", "rows": [...], "weight": 2}, ...]')
    parts = [_read_source(one) for one in sources]
    blend = [Source(one.name, one.rows, one.weight, one.agent or agent) for one in parts]
    check_sources(blend)
    return GroupOrder(blend, read_options(given))


@dataclass(frozen=True, slots=True)
class GroupLines:
    """A stream that was begun, as lines. `close` it, whether a line was read or not."""

    id: str
    stream: GroupStream
    streams: OpenStreams
    board: Collections
    body: IO[bytes]

    @property
    def headers(self) -> dict[str, str]:
        return {HEADER_STREAM: self.id}

    async def close(self) -> None:
        self.streams.found.pop(self.id, None)
        self.body.close()
        await self.stream.aclose()

    async def read(self) -> AsyncIterator[bytes]:
        run, tally = f"console-{secrets.token_hex(4)}", Tally()
        tally.start_clock()
        title = f"POST /rollouts ({self.stream.options.name[:100]})"
        self.board.follow(run, title, lambda: _progress(tally, self.stream))
        try:
            async for group in self.stream:
                _count(tally, group)
                yield group.to_line()
            yield orjson.dumps({"stream": self.stream.stats().to_dict()}) + b"\n"
        except GymError as error:
            yield _error_line(error)
        finally:
            self.board.drop(run)


async def open_groups(
    order: GroupOrder,
    sources: DiscoverySources,
    streams: OpenStreams,
    board: Collections,
    token: str,
    body: IO[bytes],
    tools: RowTools,
) -> GroupLines:
    """Begun: whatever is wrong with the order has been raised."""
    if len(streams.found) >= MAX_STREAMS:
        raise UserError(
            f"{MAX_STREAMS} streams are open in this stack", "close some: a stream closes with its connection"
        )
    router = (await sources.discovery()).router or "http://router"
    stream = GroupStream(
        router, order.sources, order.options, token=token, look=sources.discovery, ask=streams.claims.ask, tools=tools
    )
    await stream.__aenter__()
    id = secrets.token_hex(16)
    streams.found[id] = stream
    return GroupLines(id, stream, streams, board, body)


def _read_source(fields: Mapping[str, Any]) -> WireSource:
    for name in ("name", "rows"):
        if name not in fields:
            raise UserError(
                f"a part of `sources` has no {name}", 'each is {"name": "math", "rows": [...], "weight": 2}'
            )
    return read_known(WireSource, fields, "sources.")


def _count(tally: Tally, group: RolloutGroup) -> None:
    for rollout in group.rollouts:
        tally.add_done(rollout.agent, rollout.reward or 0.0)
    for rollout in group.failures:
        if rollout.failure is not None:
            tally.add_failure(rollout.agent, rollout.failure.kind)


def _progress(tally: Tally, stream: GroupStream) -> dict[str, Any]:
    stats = stream.stats()
    reason = "paused by its trainer" if stats.paused else stats.paused_reason
    progress = tally.progress(in_flight=stats.in_flight, retries=stats.retries, paused_reason=reason)
    return progress.to_dict()


def _error_line(error: GymError) -> bytes:
    if not isinstance(error, RolloutError):
        fault = isinstance(error, UserError)
        error = RolloutError("row" if fault else "agent", str(error), retryable=not fault)
    return error.to_body() + b"\n"
