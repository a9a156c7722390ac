"""A terminal in a sandbox, for people: a WebSocket of raw bytes, sizes as JSON, the result at the end.

Client to broker: binary = what was typed, text = {"rows": 24, "columns": 80}. Broker to client: binary = what is
shown, text = {"result": ...} or {"error": ...} once, last. `tty=0` is for programs: pipes instead of a terminal.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl

import orjson

from gym.broker.config import authenticate
from gym.broker.errors import RequestRefused, engine_failure
from gym.broker.grant_check import check_user
from gym.broker.provider import Process
from gym.broker.registry import SandboxEntry
from gym.broker.routes.request import refusal
from gym.broker.service import Broker
from gym.server.asgi import Receive, Scope, Send
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecRequest

UNREAD = 1 << 20  # unread bytes before the command has to wait
EACH = 128  # what a piece that waits takes, beside its bytes
LONGEST_SECONDS = 86400.0
SHELL = "if command -v bash >/dev/null 2>&1; then exec bash -i; else exec sh -i; fi"


class TerminalOutput:
    """Buffers the output of a command for a client that may read slowly."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._unread = 0
        self.process: Process | None = None

    def heard(self, _: int, data: bytes) -> None:
        self._queue.put_nowait(data)
        self._unread += len(data) + EACH
        if self._unread > UNREAD and self.process is not None:
            self.process.hold()

    def end(self) -> None:
        self._queue.put_nowait(None)

    async def read(self) -> bytes | None:
        data = await self._queue.get()
        if data is not None:
            self._unread -= len(data) + EACH
            if self._unread < UNREAD // 2 and self.process is not None:
                self.process.release()
        return data


async def serve_terminal(broker: Broker, scope: Scope, receive: Receive, send: Send) -> None:
    await receive()
    try:
        entry, request, size = read_wish(broker, scope)
        async with terminal(entry, request, size) as (process, screen):
            await send({"type": "websocket.accept"})
            broker.audit.note("attach", sandbox=entry.id, instance=entry.instance, argv=request.words())
            await talk(entry, process, screen, receive, send)
    except Exception as error:  # noqa: BLE001 (the client gets any error; the broker goes on)
        answer = refusal(engine_failure(error))
        await send({"type": "websocket.close", "status": answer.status, "body": answer.body})


def read_wish(broker: Broker, scope: Scope) -> tuple[SandboxEntry, ExecRequest, tuple[int, int] | None]:
    headers = dict(scope["headers"])
    caller = authenticate(broker.config, headers.get(b"authorization"))
    parts = [part for part in scope["path"].split("/") if part]
    if len(parts) != 3 or parts[0] != "sandboxes" or parts[2] != "attach":
        raise RequestRefused("no such route: a terminal is GET /sandboxes/{id}/attach", 404)
    query = dict(parse_qsl(scope["query_string"].decode("latin-1")))
    sizes = [query.get("rows", "24"), query.get("columns", "80")]
    if not all(size.isdecimal() and 0 < int(size) < 10_000 for size in sizes):
        raise RequestRefused("rows and columns: small numbers", 422)
    check_user(query.get("user"))
    env = {"TERM": query.get("term", "xterm-256color")}
    command = query.get("command") or SHELL
    request = ExecRequest(shell=command, env=env, timeout=LONGEST_SECONDS, user=query.get("user"), max_output=1 << 16)
    size = None if query.get("tty") == "0" else (int(sizes[0]), int(sizes[1]))
    return broker.registry.find_shared(parts[1], caller), request, size


@asynccontextmanager
async def terminal(
    entry: SandboxEntry, request: ExecRequest, size: tuple[int, int] | None
) -> AsyncIterator[tuple[Process, TerminalOutput]]:
    """Runs the command; ends it when the client disconnects."""
    screen = TerminalOutput()
    channel = await entry.channel_for(request.user)
    process = screen.process = await channel.start(request, screen.heard, tty=size)
    try:
        yield process, screen
    finally:
        if process.running and not channel.closed:
            await process.kill()


async def talk(entry: SandboxEntry, process: Process, screen: TerminalOutput, receive: Receive, send: Send) -> None:
    async with asyncio.TaskGroup() as group:
        shown = group.create_task(show(screen, send))
        typed = group.create_task(listen(process, receive))
        ended = group.create_task(last_word(entry, process))
        await asyncio.wait({typed, ended}, return_when=asyncio.FIRST_COMPLETED)
        typed.cancel()
        if ended.done():
            screen.end()
            await shown
            await send({"type": "websocket.send", "text": orjson.dumps(ended.result()).decode()})
            await send({"type": "websocket.close", "code": 1000})
        else:
            ended.cancel()
            shown.cancel()


async def show(screen: TerminalOutput, send: Send) -> None:
    while (data := await screen.read()) is not None:
        await send({"type": "websocket.send", "bytes": data})


async def listen(process: Process, receive: Receive) -> None:
    while (event := await receive())["type"] == "websocket.receive":
        if event.get("bytes"):
            await process.write(event["bytes"])
        elif size := read_size(event.get("text") or ""):
            await process.resize(*size)


def read_size(text: str) -> tuple[int, int] | None:
    try:
        message = orjson.loads(text)
        rows, columns = int(message["rows"]), int(message["columns"])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return None
    return (rows, columns) if 0 < rows < 10_000 and 0 < columns < 10_000 else None


async def last_word(entry: SandboxEntry, process: Process) -> dict[str, Any]:
    try:
        result = await process.wait()
    except RolloutError as error:
        return {"error": (await entry.explain(error)).to_dict()}
    return {"result": {"exit_code": result.exit_code, "signal": result.signal, "seconds": result.seconds}}
