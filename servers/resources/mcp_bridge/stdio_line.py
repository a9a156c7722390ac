"""An MCP server as a process of its own: messages are lines on its standard input and output.

Whatever it started in its group ends with it, also when this server is killed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
from lines import LineBroken, LineLate, Message

GUARD = Path(__file__).with_name("process_guard.py")
LONGEST_MESSAGE = 64 << 20
LAST_WORDS = 2000  # characters of standard error that go into a failure
GRACE = 1.0  # between the end of a process and the end of its pipes, which a child may hold open
PASSED_ON = ("HOME", "LANG", "LC_ALL", "LOGNAME", "SHELL", "TERM", "TMPDIR", "TZ", "USER")  # no secret of this server's


def environment_of(variables: Mapping[str, str]) -> dict[str, str]:
    """Programs of this server's own environment are found first: `python` is its Python."""
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return {**passed, "PATH": path, **variables}


class Keeper:
    """The process that ends what is left when this server was killed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> Keeper:
        argv = (sys.executable, "-I", "-S", str(GUARD), "keep")
        return cls(await asyncio.create_subprocess_exec(*argv, stdin=-1, start_new_session=True))

    def note(self, sign: str, pid: int) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{sign}{pid}\n".encode())

    async def aclose(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


class StdioLine(asyncio.SubprocessProtocol):
    """Make it with `StdioLine.open`."""

    version = ""

    def __init__(self, keeper: Keeper, stop_seconds: float) -> None:
        self._keeper = keeper
        self._stop_seconds = stop_seconds
        self._waiting: dict[Any, asyncio.Future[Message]] = {}
        self._held = bytearray()
        self._said: deque[str] = deque(maxlen=20)
        self._broken = ""
        self._transport: Any = None  # uvloop's is of no class of asyncio's
        self._ended = asyncio.get_running_loop().create_future()

    @classmethod
    async def open(
        cls, argv: Sequence[str], keeper: Keeper, *, variables: Mapping[str, str], cwd: str, stop_seconds: float
    ) -> StdioLine:
        guarded = (sys.executable, "-I", "-S", str(GUARD), "start", "--", *argv)
        loop = asyncio.get_running_loop()
        transport, line = await loop.subprocess_exec(
            lambda: cls(keeper, stop_seconds),
            *guarded,
            env=environment_of(variables),
            cwd=cwd or None,
            start_new_session=True,
        )
        keeper.note("+", transport.get_pid())
        line._write(b"g")
        return line

    async def ask(self, message: Message, seconds: float) -> Message:
        if self._broken:
            raise LineBroken(self._broken)
        reply = self._waiting[message["id"]] = asyncio.get_running_loop().create_future()
        try:
            self._write(orjson.dumps(message) + b"\n")
            async with asyncio.timeout(seconds):
                return await reply
        except TimeoutError:
            raise LineLate(self._with_last_words(f"it did not answer within {seconds:g} s")) from None
        finally:
            self._waiting.pop(message["id"], None)

    async def tell(self, message: Message) -> None:
        self._write(orjson.dumps(message) + b"\n")

    async def aclose(self) -> None:
        """It may end by itself once its input has; what is left of its group then is killed."""
        transport = self._transport
        if transport is None:
            return
        self._transport = None
        pid = transport.get_pid()
        try:
            if (pipe := transport.get_pipe_transport(0)) is not None:
                pipe.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._stop_seconds):
                    await asyncio.shield(self._ended)
        finally:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
            self._keeper.note("-", pid)
            self._break("its session is closed")
            with suppress(TimeoutError):  # what was killed ends at once; the system may be slow to say so
                async with asyncio.timeout(GRACE):
                    await asyncio.shield(self._ended)
            transport.close()

    # What asyncio calls.

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self._said.extend(data.decode("utf-8", "replace").splitlines())
            return
        self._held += data
        if len(self._held) > LONGEST_MESSAGE:
            self._break(f"it sent a message of more than {LONGEST_MESSAGE} bytes")
            self._held.clear()
        if b"\n" in data:
            *lines, rest = bytes(self._held).split(b"\n")
            self._held = bytearray(rest)
            for line in lines:
                self._read(line)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            asyncio.get_running_loop().call_later(GRACE, self._break, "it closed its output")

    def process_exited(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)
        asyncio.get_running_loop().call_later(GRACE, self._break, self._how_ended())

    def connection_lost(self, exc: Exception | None) -> None:
        self._break(self._how_ended())

    # Helpers.

    def _read(self, line: bytes) -> None:
        """What is not a message belongs on standard error: it is shown there, and harms nothing."""
        try:
            message = orjson.loads(line)
        except orjson.JSONDecodeError:
            self._said.append(line[:500].decode("utf-8", "replace"))
            return
        for one in message if isinstance(message, list) else [message]:
            if isinstance(one, dict) and "method" in one:
                self._answer(one)
            elif isinstance(one, dict) and (reply := self._waiting.get(one.get("id"))) and not reply.done():
                reply.set_result(one)

    def _answer(self, asked: Message) -> None:
        """The server's own requests: it may ask whether we live, and is offered nothing else."""
        if "id" in asked:
            refusal = {"code": -32601, "message": "this client offers no such thing"}
            outcome = {"result": {}} if asked["method"] == "ping" else {"error": refusal}
            self._write(orjson.dumps({"jsonrpc": "2.0", "id": asked["id"], **outcome}) + b"\n")

    def _write(self, data: bytes) -> None:
        pipe = self._transport.get_pipe_transport(0) if self._transport else None
        if pipe is not None and not pipe.is_closing():
            pipe.write(data)

    def _how_ended(self) -> str:
        code = self._transport.get_returncode() if self._transport else None
        if code is None:
            return "it closed its output"
        return f"it ended with exit code {code}" if code >= 0 else f"it was ended by signal {-code}"

    def _with_last_words(self, what: str) -> str:
        said = "\n".join(self._said)[-LAST_WORDS:].strip()
        return f"{what}; it said: {said}" if said else what

    def _break(self, why: str) -> None:
        if self._broken:
            return
        self._broken = self._with_last_words(why)
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(LineBroken(self._broken))
