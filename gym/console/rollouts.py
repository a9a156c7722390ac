"""`POST /rollouts`: rows in, verified rollouts out as NDJSON while they finish. Gone when its client goes.

The client's reading speed is the run's: what it does not take is not begun.
"""

from __future__ import annotations

import asyncio
import difflib
import secrets
import tempfile
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import IO, Annotated, Any

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request

from gym.collect import AttemptOptions, Rollout, collect_from
from gym.collect.aio import allow_connections
from gym.collect.findings import fold_problems
from gym.collect.rows import RowRules, TaskReader
from gym.collect.source import row_to_line
from gym.collect.tally import Tally
from gym.collect.targets import Targets
from gym.console.collections import Collections
from gym.console.sources import Sources
from gym.errors import GymError, Problem, UserError
from gym.server.http import HttpClient
from gym.wire.failures import RolloutError

MOST_BYTES = 1 << 30
IN_MEMORY = 1 << 20  # of a body; more of it lies in a file
MOST_PROBLEMS = 20


class Order(BaseModel):
    """What a client may ask for: keys beside `rows`, below `options`, or in the query."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    agent: str = ""
    repeats: Annotated[int, Field(ge=1)] = 1
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 64
    timeout: Annotated[float, Field(gt=0)] = 3600.0
    max_attempts: Annotated[int, Field(ge=1)] = 3
    max_pause: Annotated[float, Field(ge=0)] = 600.0


@dataclass(frozen=True, slots=True)
class RolloutService:
    """Collects inside the stack, from the console's own knowledge of it."""

    sources: Sources
    board: Collections
    token: str = ""

    async def open(self, request: Request) -> AsyncIterator[bytes]:
        """The stream of lines; whatever is wrong with the order is raised before it begins."""
        body = await _read_body(request)
        try:
            rows, order = _read_order(body, request.headers.get("content-type", ""), request.query_params)
            allow_connections(order.concurrency)
            return await self._prepare(rows, order, body)
        except BaseException:
            body.close()
            raise

    async def _prepare(self, rows: Iterable[object], order: Order, body: IO[bytes]) -> AsyncIterator[bytes]:
        http = HttpClient()
        found = await self.sources.discovery()
        targets = Targets(http, found.router or "http://router", self.token, look=self.sources.discovery)
        await targets.connect()
        targets.check_agent(order.agent)
        if problems := await asyncio.to_thread(_check_rows, rows, order, targets):
            raise UserError("\n".join(map(str, problems)), "mend them; nothing was run")
        return self._stream(targets, http, rows, order, body)

    async def _stream(
        self, targets: Targets, http: HttpClient, rows: Iterable[object], order: Order, body: IO[bytes]
    ) -> AsyncIterator[bytes]:
        options = AttemptOptions(**order.model_dump(include={"concurrency", "timeout", "max_attempts", "max_pause"}))
        run, tally = f"console-{secrets.token_hex(4)}", Tally()
        tally.start_clock()
        self.board.follow(run, "POST /rollouts", lambda: tally.progress().to_dict())
        rollouts = collect_from(targets, http, rows, agent=order.agent, repeats=order.repeats, options=options)
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


def error_body(error: GymError) -> bytes:
    """Every refusal in the words of the failure contract."""
    if isinstance(error, RolloutError):
        return error.to_body()
    fault = isinstance(error, UserError)
    return RolloutError("row" if fault else "agent", str(error), retryable=not fault).to_body()


async def _read_body(request: Request) -> IO[bytes]:
    """Whole before anything runs: a router may not let answers through while it still takes the question."""
    body: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 (lives as long as the stream)
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > MOST_BYTES:
            raise UserError(f"the body is larger than {MOST_BYTES >> 20} MiB", "send the rows in several requests")
        body.write(chunk)
    body.seek(0)
    return body


def _read_order(body: IO[bytes], kind: str, query: Mapping[str, str]) -> tuple[Iterable[object], Order]:
    """JSONL, one row a line; or one object with `rows` and options in it."""
    if "ndjson" in kind or "jsonl" in kind or _is_row(body.readline()):
        return _Lines(body), _parse_options(dict(query))
    body.seek(0)
    try:
        told = orjson.loads(body.read())
    except orjson.JSONDecodeError as error:
        raise UserError(f"the body is neither JSONL nor a JSON object: {error}", 'send {"rows": [...]}') from None
    if not isinstance(told, dict):
        raise UserError("the body is no object", 'send {"rows": [...]}, or one row a line')
    rows, nested = told.pop("rows", None), told.pop("options", {})
    if not isinstance(rows, list) or not isinstance(nested, dict):
        raise UserError("`rows` must be a list, and `options`, where there are any, an object", 'send {"rows": [...]}')
    return rows, _parse_options({**query, **nested, **told})


def _parse_options(told: Mapping[str, Any]) -> Order:
    known = list(Order.model_fields)
    for name in told:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
            raise UserError(f"there is no option {name!r}", hint)
    try:
        return Order.model_validate(told)
    except ValidationError as error:
        found = error.errors()[0]
        raise UserError(f"{'.'.join(map(str, found['loc']))}: {found['msg']}, found {found['input']!r}") from None


def _is_row(line: bytes) -> bool:
    try:
        told = orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return isinstance(told, dict) and "rows" not in told


class _Lines:
    """A file's lines, from the beginning each time. Blank ones count as lines and are no rows."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def __iter__(self) -> Iterator[bytes]:
        self._file.seek(0)
        return (line for line in self._file if line.strip())


def _check_rows(rows: Iterable[object], order: Order, targets: Targets) -> list[Problem]:
    reader = TaskReader(RowRules(agents=frozenset(targets.agents), agent=order.agent))
    lines = (row_to_line(row, "rows", number) for number, row in enumerate(rows, 1))
    found = [item for item in reader.read(lines) if isinstance(item, Problem)]
    if not reader.rows:
        raise UserError("no rows", 'send {"rows": [...]}, or one row a line')
    return fold_problems(found, MOST_PROBLEMS)


def _count(tally: Tally, rollout: Rollout) -> None:
    if rollout.failure is not None:
        tally.add_failure(rollout.agent, rollout.failure.kind)
    else:
        tally.add_done(rollout.agent, rollout.reward or 0.0)
