"""The connection into one sandbox, over two byte streams to its helper. When it breaks, every pending call fails."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import struct
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any, Final, Protocol, TypeVar

from gym.broker.channel import frames
from gym.broker.channel.channel_process import (
    CommandNotStarted,
    HeadTailSink,
    LimitedSink,
    OnOutput,
    OutputSink,
    PipeProcess,
    TooMuchSent,
)
from gym.broker.channel.frames import Frame, Option
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecRequest, ExecResult, FileInfo

T = TypeVar("T")
PING_EVERY: Final = 5.0  # the helper gives up after --silence, which is some of these
UNHEARD: Final = 20.0  # a command that is this much overdue fails if the helper is silent as well
MAX_OUTPUT: Final = 256 << 20  # the helper keeps half of it in the sandbox's own memory
READ_SIZE: Final = 1 << 18
MAX_READ: Final = 256 << 20  # of a file at once
STOPPED: Final = "the sandbox has stopped answering: stopped, or starved"
MAX_LISTED: Final = 32 << 20  # bytes of one listing, some 300,000 entries


class Reader(Protocol):
    async def read(self, n: int) -> bytes: ...


class Writer(Protocol):
    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None: ...

    def close(self) -> None: ...


class FileOperationError(RolloutError):
    """A file operation that the sandbox's own system refused; `errno` says why."""

    def __init__(self, path: str, errno: int) -> None:
        status = 404 if errno in (2, 20) else 422
        super().__init__("sandbox", f"{path}: {os.strerror(errno)}", retryable=False, status=status)
        self.path = path
        self.errno = errno


async def open_channel(
    reader: Reader, writer: Writer, *, timeout: float = 10.0, resume: bool = False, keep: bool = False
) -> PipeChannel:
    """Opens a session. `resume`: an earlier client may have left half a frame; `keep`: its named jobs run on."""
    nonce = secrets.token_bytes(16)
    hello = frames.encode_frame(frames.HELLO, 0, nonce + bytes([keep]))
    try:
        async with asyncio.timeout(timeout):
            writer.write((frames.PADDING if resume else b"") + hello)
            await writer.drain()
            seen = bytearray()
            while (at := frames.find_hello(bytes(seen), nonce)) is None:
                data = await reader.read(READ_SIZE)
                if not data:
                    raise RolloutError("sandbox", "the sandbox ended before its helper answered")
                seen = (seen if len(seen) < 1024 else seen[-1024:]) + data
    except TimeoutError as error:
        raise RolloutError("sandbox", f"the helper in the sandbox did not answer within {timeout:g} s") from error
    except OSError as error:
        raise RolloutError("sandbox", f"the sandbox ended before its helper answered ({error})") from error
    return PipeChannel(reader, writer, bytes(seen[at:]))


class PipeChannel:
    """Fits `gym.broker.provider.Channel`. Made by `open_channel`; `close` ends its two tasks."""

    def __init__(self, reader: Reader, writer: Writer, greeting: bytes) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = frames.FrameDecoder()
        self._processes: dict[int, PipeProcess] = {}
        self._last = 0
        self._heard = time.monotonic()
        self._gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._pongs: list[asyncio.Future[None]] = []
        self.pid = 0  # of the helper, as itself sees it
        self.adopted: tuple[PipeProcess, ...] = ()
        for frame in self._decoder.feed(greeting):
            self._take(frame)
        self._tasks = (asyncio.create_task(self._listen()), asyncio.create_task(self._keep_alive()))

    @property
    def closed(self) -> bool:
        return self._gone.done()

    @property
    def begun(self) -> int:
        """How many commands and file operations were started on this channel."""
        return self._last

    @property
    def unheard(self) -> float:
        """Seconds since the helper last said anything; it is asked every few seconds."""
        return time.monotonic() - self._heard

    async def wait_closed(self) -> str:
        return await asyncio.shield(self._gone)

    async def close(self, why: str = "closed by the broker") -> None:
        self._break(why)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def ping(self) -> float:
        began = time.monotonic()
        pong: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pongs.append(pong)
        self.send(frames.PING, 0)
        await pong
        return time.monotonic() - began

    async def exec(self, request: ExecRequest, on_output: OnOutput | None = None) -> ExecResult:
        options = Option.KILL_LEFTOVERS if request.kill_leftovers else Option(0)
        process = self._run(request, options, HeadTailSink(request.max_output, on_output))
        try:
            await process.write(request.stdin)
            await process.close_stdin()
            return await self._finish(process, request.timeout)
        finally:
            process.abandon()

    async def start(
        self, request: ExecRequest, on_output: OnOutput | None = None, *, tty: tuple[int, int] | None = None
    ) -> PipeProcess:
        """With `on_output` everything crosses, as fast as it is taken; without, heads and tails as in `exec`."""
        options = Option.KILL_LEFTOVERS if request.kill_leftovers else Option(0)
        options |= (Option.LIVE if on_output else Option(0)) | (Option.TTY if tty else Option(0))
        options |= Option.KEEP if request.id else Option(0)
        sink = HeadTailSink(request.max_output, on_output, live=on_output is not None)
        process = self._run(request, options, sink, tty)
        try:
            if request.stdin:
                await process.write(request.stdin)
            await process.wait_started()
        except BaseException:
            process.abandon()
            raise
        return process

    async def write_file(self, path: str, data: bytes, *, mode: int | None = None, append: bool = False) -> None:
        octal = "" if mode is None else f"{mode & 0o7777:o}"
        await self._operate(path, "write", path, octal, "1" if append else "0", stdin=data)

    async def write_pieces(
        self, path: str, pieces: AsyncIterator[bytes], *, mode: int | None = None, append: bool = False
    ) -> None:
        """Replaces the file once all pieces are there; a transfer that breaks off leaves the old file."""
        octal = "" if mode is None else f"{mode & 0o7777:o}"
        await self._operate(path, "write", path, octal, "1" if append else "0", stdin=pieces)

    async def read_file(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        size = MAX_READ if length is None else min(length, MAX_READ)
        return await self._operate(path, "read", path, str(offset), str(size), sink=OutputSink(size))

    async def stat(self, path: str) -> FileInfo:
        return next(frames.decode_entries(await self._operate(path, "stat", path)))

    async def list(self, path: str, *, recursive: bool = False) -> Sequence[FileInfo]:
        sink = LimitedSink(MAX_LISTED, f"{path}: its listing is larger than {MAX_LISTED >> 20} MiB; list parts of it")
        found = await self._operate(path, "list", path, "1" if recursive else "0", sink=sink)
        return sorted(frames.decode_entries(found), key=lambda entry: entry.path)

    async def make_dir(self, path: str, *, mode: int | None = None) -> None:
        await self._operate(path, "mkdir", path, "" if mode is None else f"{mode & 0o7777:o}")

    async def make_link(self, path: str, target: str) -> None:
        await self._operate(path, "link", path, target)

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        await self._operate(path, "remove", path, "1" if recursive else "0")

    async def set_times(self, path: str, mtime: float) -> None:
        seconds, part = divmod(round(mtime * 1e9), 1_000_000_000)
        await self._operate(path, "times", path, f"{seconds}.{part:09d}")

    def send(self, type: int, stream: int, body: bytes = b"") -> None:
        if not self.closed:
            self._writer.write(frames.encode_frame(type, stream, body))

    async def drain(self) -> None:
        with contextlib.suppress(OSError):  # the listener finds out and says so
            await self._writer.drain()

    def forget(self, stream: int) -> None:
        self._processes.pop(stream, None)

    async def _operate(
        self, path: str, *argv: str, stdin: bytes | AsyncIterator[bytes] = b"", sink: OutputSink | None = None
    ) -> bytes:
        sink = sink or OutputSink()
        process = self._begin(frames.encode_spec, argv, Option.LIVE | Option.BUILTIN, sink)
        try:
            await self._feed(process, stdin)
            await process.close_stdin()
            ended = await self._while_heard(process.wait_ended())
        except CommandNotStarted as error:
            raise (FileOperationError(path, error.errno) if not error.doing else error) from None
        finally:
            process.abandon()
        if ended.exit_code != 0:
            raise RolloutError("sandbox", f"{path}: the file operation was cut short by signal {ended.signal}")
        return bytes(sink.data)

    def _run(
        self, request: ExecRequest, options: Option, sink: HeadTailSink, tty: tuple[int, int] | None = None
    ) -> PipeProcess:
        return self._begin(
            lambda argv, chosen: frames.encode_spec(
                argv,
                chosen,
                env=request.env,
                cwd=request.cwd,
                timeout=request.timeout,
                max_output=min(request.max_output, MAX_OUTPUT),
                tty=tty,
                limits=request.limits,
                name=request.id if Option.KEEP in chosen else None,
            ),
            request.words(),
            options,
            sink,
        )

    def _begin(self, encode: Encode, argv: Sequence[str], options: Option, sink: OutputSink) -> PipeProcess:
        if self.closed:
            raise lost(self._gone.result())
        try:
            spec = encode(argv, options)
        except ValueError as error:
            raise RolloutError("row", str(error)) from error
        self._last += 1
        process = PipeProcess(self, self._last, options, sink, tuple(argv))
        self._processes[self._last] = process
        self._writer.write(frames.encode_run(self._last, spec))
        return process

    async def _feed(self, process: PipeProcess, stdin: bytes | AsyncIterator[bytes]) -> None:
        if isinstance(stdin, bytes):
            await self._while_heard(process.write(stdin))
            return
        async for piece in stdin:
            if not process.running:  # no space, no permission: its result says which
                return
            await self._while_heard(process.write(piece))

    async def _while_heard(self, work: Coroutine[Any, Any, T]) -> T:
        """No file operation waits forever on a sandbox that was stopped, or starves."""
        task = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait({task}, timeout=UNHEARD))[0]:
                if time.monotonic() - self._heard > UNHEARD:
                    raise RolloutError("sandbox", STOPPED)
            return task.result()
        finally:
            task.cancel()

    async def _finish(self, process: PipeProcess, timeout: float) -> ExecResult:
        timeout_left = timeout + UNHEARD
        while True:
            try:
                return await asyncio.wait_for(process.wait(), timeout_left)
            except TimeoutError:
                if time.monotonic() - self._heard > UNHEARD:
                    raise RolloutError("sandbox", STOPPED) from None
                timeout_left = UNHEARD

    async def _listen(self) -> None:
        why = "the helper in the sandbox ended"
        try:
            while data := await self._reader.read(READ_SIZE):
                self._heard = time.monotonic()
                for frame in self._decoder.feed(data):
                    self._take(frame)
        except OSError as error:
            why = f"the connection to the sandbox broke: {error}"
        except frames.FrameError as error:
            why = f"the helper in the sandbox sent invalid frames: {error}"
        finally:
            self._break(why)

    async def _keep_alive(self) -> None:
        while not self.closed:
            self.send(frames.PING, 0)
            await asyncio.sleep(PING_EVERY)

    def _take(self, frame: Frame) -> None:
        if frame.type == frames.HELLO_BACK:
            self.pid, kept = frames.decode_hello(frame.body)
            self._adopt(kept)
        elif frame.type == frames.PONG:
            waiting, self._pongs = self._pongs, []
            for pong in waiting:
                if not pong.done():
                    pong.set_result(None)
        elif process := self._processes.get(frame.stream):
            try:
                process.take(frame)
            except (TooMuchSent, struct.error) as error:
                process.abandon(
                    error if isinstance(error, TooMuchSent) else lost(f"its helper sent an invalid frame: {error}")
                )
                raise frames.FrameError(str(error)) from error
            except Exception as error:  # noqa: BLE001 (a failing listener of one command must not end all of them)
                failure = error if isinstance(error, RolloutError) else None
                process.abandon(failure or RolloutError("sandbox", f"the listener to its output failed: {error!r}"))

    def _adopt(self, kept: Sequence[tuple[int, str]]) -> None:
        for stream, name in kept:
            self._processes[stream] = PipeProcess(
                self, stream, Option.KEEP, HeadTailSink(MAX_OUTPUT, None), (), name=name
            )
            self._last = max(self._last, stream)
        self.adopted = tuple(self._processes.values())

    def _break(self, why: str) -> None:
        if self._gone.done():
            return
        self._gone.set_result(why)
        for process in tuple(self._processes.values()):
            process.fail(lost(why))
        for pong in self._pongs:
            if not pong.done():
                pong.set_exception(lost(why))
        self._writer.close()


class Encode(Protocol):
    def __call__(self, argv: Sequence[str], options: Option, /) -> bytes: ...


def lost(why: str) -> RolloutError:
    return RolloutError("sandbox", f"the sandbox is lost: {why}")
