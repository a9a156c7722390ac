"""`POST /rollouts`: rows in, verified rollouts or groups out as NDJSON while they finish. Gone when its client goes.

The client's reading speed is the run's: what it does not take is not begun.
"""

from __future__ import annotations

import asyncio
import difflib
import io
import secrets
import shutil
import tempfile
from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import IO, Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from gym.collect import AttemptOptions, Rollout, collect_from
from gym.collect.concurrency import allow_connections
from gym.collect.folded_problems import fold_problems
from gym.collect.row_tools import RowTools
from gym.collect.tally import Tally
from gym.collect.targets import Targets
from gym.collect.task_reader import TaskReader, TaskRules
from gym.console.collections import Collections
from gym.console.console_replies import error_body
from gym.console.discovery_sources import DiscoverySources
from gym.console.environment_tools import own_tools
from gym.console.group_streams import KEYS, OpenStreams, open_groups, read_group_order
from gym.data.line_source import row_to_line
from gym.errors import GymError, Problem, UserError
from gym.http.pool import HttpClient
from gym.wire.policy_endpoint import KEY
from gym.wire.server_types import AGENTS

MAX_BYTES = 1 << 30
MAX_BYTES_WITH_KEYS = 64 << 20  # of rows that bring keys of their own: they stay in memory
IN_MEMORY = 1 << 20  # of a body; more of it lies in a file
MAX_PROBLEMS = 20


class RolloutRequest(BaseModel):
    """What a client may ask for: keys beside `rows`, below `options`, or in the query."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    agent: str = ""
    """The agent of rows that name none."""
    repeats: Annotated[int, Field(ge=1)] = 1
    """Rollouts of each row."""
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 64
    """Rollouts at once."""
    timeout: Annotated[float, Field(gt=0)] = 3600.0
    """Seconds for one attempt."""
    max_attempts: Annotated[int, Field(ge=1)] = 3
    """Tries of one rollout."""
    max_pause: Annotated[float, Field(ge=0)] = 600.0
    """Give up when every agent was paused for longer, in seconds."""


async def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Opened:
    """A collection that has begun, or begins with its first line."""

    lines: AsyncIterator[bytes]
    headers: dict[str, str] = field(default_factory=dict)
    close: Callable[[], Awaitable[None]] = _nothing


class LinesResponse(StreamingResponse):
    """Closes what it streams even where its client went before the first line."""

    def __init__(self, opened: Opened, headers: Mapping[str, str]) -> None:
        super().__init__(opened.lines, headers={**headers, **opened.headers}, media_type="application/x-ndjson")
        self._opened = opened

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._opened.close()


@dataclass(frozen=True, slots=True)
class RolloutService:
    """Collects inside the stack, from the console's own knowledge of it."""

    sources: DiscoverySources
    board: Collections
    token: str = ""
    streams: OpenStreams = field(default_factory=OpenStreams)

    async def open(self, request: Request) -> Opened:
        """Whatever is wrong with the order is raised before anything begins."""
        body = await _read_body(request)
        try:
            rows, fields = _read_order(body, request.headers.get("content-type", ""), request.query_params)
            if any(key in fields for key in KEYS):
                return await self._open_groups(rows, fields, body)
            if rows is None:
                raise UserError("there are no `rows`", 'send {"rows": [...]}, or one row a line')
            order = _parse_options(fields)
            allow_connections(order.concurrency)
            return Opened(await self._prepare(rows, order, body))
        except BaseException:
            body.close()
            raise

    async def _open_groups(self, rows: Iterable[object] | None, fields: Mapping[str, Any], body: IO[bytes]) -> Opened:
        order = read_group_order(rows, fields)
        found = await self.sources.discovery()
        names = [name for name, one in found.instances.items() if one.type == AGENTS]
        async with aclosing(HttpClient()) as http:
            tools = await own_tools(names, self.sources, http)
        if not order.options.skip_bad_rows:
            for part in order.sources:
                await asyncio.to_thread(_refuse_bad_rows, part.rows, part.name, part.agent, names, tools)
        lines = await open_groups(order, self.sources, self.streams, self.board, self.token, body, tools)
        return Opened(lines.read(), lines.headers, lines.close)

    async def _prepare(self, rows: Iterable[object], order: RolloutRequest, body: IO[bytes]) -> AsyncIterator[bytes]:
        http = HttpClient()
        found = await self.sources.discovery()
        targets = Targets(http, found.router or "http://router", self.token, read=self.sources.discovery)
        await targets.connect()
        targets.check_agent(order.agent)
        tools = await own_tools(targets.agents, self.sources, http)
        await asyncio.to_thread(_refuse_bad_rows, rows, "rows", order.agent, targets.agents, tools)
        return self._stream(targets, http, rows, order, body, tools)

    async def _stream(
        self,
        targets: Targets,
        http: HttpClient,
        rows: Iterable[object],
        order: RolloutRequest,
        body: IO[bytes],
        tools: RowTools,
    ) -> AsyncIterator[bytes]:
        options = AttemptOptions(**order.model_dump(include={"concurrency", "timeout", "max_attempts", "max_pause"}))
        run, tally = f"console-{secrets.token_hex(4)}", Tally()
        tally.start_clock()
        self.board.follow(run, "POST /rollouts", lambda: tally.progress().to_dict())
        rollouts = collect_from(
            targets, http, rows, agent=order.agent, repeats=order.repeats, options=options, tools=tools
        )
        try:
            async with aclosing(rollouts):
                async for rollout in rollouts:
                    _count(tally, rollout)
                    yield rollout.line
        except GymError as error:
            yield error_body(error) + b"\n"
        finally:
            self.board.drop(run)
            body.close()
            await http.aclose()


async def _read_body(request: Request) -> IO[bytes]:
    """Whole before anything runs: a router may not let answers through while it still takes the question."""
    body: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 (lives as long as the stream)
    size, end, max_bytes = 0, b"", MAX_BYTES
    async for chunk in request.stream():
        size += len(chunk)
        if max_bytes == MAX_BYTES and KEY.encode() in end + chunk:  # a key does not go to the disk
            body, max_bytes = _in_memory(body), MAX_BYTES_WITH_KEYS
        if size > max_bytes:
            raise UserError(f"the body is larger than {max_bytes >> 20} MiB", "send the rows in several requests")
        body.write(chunk)
        end = chunk[-len(KEY) :]
    body.seek(0)
    return body


def _in_memory(body: IO[bytes]) -> IO[bytes]:
    body.seek(0)
    moved = io.BytesIO()
    shutil.copyfileobj(body, moved)
    body.close()
    return moved


def _read_order(body: IO[bytes], kind: str, query: Mapping[str, str]) -> tuple[Iterable[object] | None, dict[str, Any]]:
    """JSONL, one row a line; or one object with `rows` (or, for groups, `sources`) and options in it."""
    if "ndjson" in kind or "jsonl" in kind or _is_row(body.readline()):
        return _Lines(body), dict(query)
    body.seek(0)
    try:
        fields = orjson.loads(body.read())
    except orjson.JSONDecodeError as error:
        raise UserError(f"the body is neither JSONL nor a JSON object: {error}", 'send {"rows": [...]}') from None
    if not isinstance(fields, dict):
        raise UserError("the body is not an object", 'send {"rows": [...]}, or one row a line')
    rows, nested = fields.pop("rows", None), fields.pop("options", {})
    if not isinstance(rows, list | None) or not isinstance(nested, dict):
        raise UserError("`rows` must be a list, and `options`, where there are any, an object", 'send {"rows": [...]}')
    return rows, {**query, **nested, **fields}


def _parse_options(fields: Mapping[str, Any]) -> RolloutRequest:
    known = list(RolloutRequest.model_fields)
    for name in fields:
        if name not in known:
            near = difflib.get_close_matches(name, [*known, *KEYS], n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
            raise UserError(f"there is no option {name!r}", hint)
    try:
        return RolloutRequest.model_validate(fields)
    except ValidationError as error:
        found = error.errors()[0]
        raise UserError(f"{'.'.join(map(str, found['loc']))}: {found['msg']}, found {found['input']!r}") from None


def _is_row(line: bytes) -> bool:
    try:
        first = orjson.loads(line.removeprefix(BOM_UTF8))
    except orjson.JSONDecodeError:
        return False
    return isinstance(first, dict) and not {"rows", "sources"} & first.keys()


class _Lines:
    """A file's lines, from the beginning each time. Blank ones count as lines and are not rows."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def __iter__(self) -> Iterator[bytes]:
        self._file.seek(0)
        return (line for line in self._file if line.strip())


def _refuse_bad_rows(rows: Any, name: str, agent: str, agents: Collection[str], tools: RowTools) -> None:
    reader = TaskReader(TaskRules(agents=frozenset(agents), agent=agent, tools=tools))
    lines = (row_to_line(row, name, number) for number, row in enumerate(rows, 1))
    found = [item for item in reader.read(lines) if isinstance(item, Problem)]
    if not reader.rows:
        raise UserError("no rows", 'send {"rows": [...]}, or one row a line')
    if found:
        raise UserError("\n".join(map(str, fold_problems(found, MAX_PROBLEMS))), "fix them; nothing was run")


def _count(tally: Tally, rollout: Rollout) -> None:
    if rollout.failure is not None:
        tally.add_failure(rollout.agent, rollout.failure.kind)
    else:
        tally.add_done(rollout.agent, rollout.reward or 0.0)
