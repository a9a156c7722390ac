"""A command inside a sandbox as its broker sees it: its output so far, its input, its end."""

from __future__ import annotations

import asyncio
import os
import struct
import time
from collections.abc import Callable
from typing import Final, Protocol

from gym.broker.channel import frames
from gym.broker.channel.frames import Frame, Option, ResultFrame
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecResult, Output

OnOutput = Callable[[int, bytes], None]
INPUT_WINDOW: Final = 256 << 10  # input under way that the command has not taken yet
CREDIT_EVERY: Final = 256 << 10


class CommandNotStarted(RolloutError):
    """The command could not be started: not found, not executable, no process available. Not the same as exit 127."""

    def __init__(self, words: str, stage: int, errno: int) -> None:
        self.doing = frames.STAGES.get(stage, "")
        self.errno = errno
        busy = stage == 1
        what = f"{words}: {self.doing}: {os.strerror(errno)}" + (" (its pids limit is reached?)" if busy else "")
        super().__init__("sandbox", what, retryable=False, status=422)


class FrameSender(Protocol):
    def send(self, type: int, stream: int, body: bytes = b"") -> None: ...

    async def drain(self) -> None: ...

    def forget(self, stream: int) -> None: ...


class TooMuchSent(RolloutError):
    """The helper sent more than was asked for, so it is no longer trusted."""

    def __init__(self, what: str) -> None:
        super().__init__("sandbox", f"the helper in the sandbox sent more {what} than it may", retryable=False)


class OutputSink:
    """Collects live output, up to what was asked for."""

    def __init__(self, max_bytes: int = 64 << 10) -> None:
        self.data = bytearray()
        self._max_bytes = max_bytes

    def take(self, stream: int, data: bytes) -> None:
        if stream != 1:
            return
        self.data += data
        if len(self.data) > self._max_bytes:
            raise self.refusal()

    def refusal(self) -> RolloutError:
        return TooMuchSent("of a file")

    def take_tail(self, stream: int, fresh: bool, dropped: int, data: bytes) -> None: ...

    def outputs(self) -> tuple[Output, Output]:
        return Output(head=bytes(self.data)), Output()


class LimitedSink(OutputSink):
    """Collects at most `max_bytes`; a command that writes more is ended with `refusal`."""

    def __init__(self, max_bytes: int, refusal: str) -> None:
        super().__init__(max_bytes)
        self._refusal = refusal

    def refusal(self) -> RolloutError:
        return RolloutError("sandbox", self._refusal, retryable=False, status=413)


class HeadTailSink(OutputSink):
    """Keeps head and tail of both streams within a bound, and passes the output to a listener."""

    def __init__(self, max_bytes: int, on_output: OnOutput | None, *, live: bool = False) -> None:
        super().__init__(max_bytes)
        self._on_output = on_output
        self._live = live
        self._heads = (bytearray(), bytearray())
        self._tails = (bytearray(), bytearray())
        self._dropped = [0, 0]

    def take(self, stream: int, data: bytes) -> None:
        if self._live:
            self._keep(stream - 1, data)
        else:
            self._heads[stream - 1].extend(data)
            if len(self._heads[stream - 1]) > (self._max_bytes + 1) // 2:
                raise TooMuchSent("output")
        if self._on_output:
            self._on_output(stream, data)

    def take_tail(self, stream: int, fresh: bool, dropped: int, data: bytes) -> None:
        tail = self._tails[stream]
        if fresh:
            tail.clear()
        tail += data
        if len(tail) > self._max_bytes // 2:
            raise TooMuchSent("output")
        self._dropped[stream] = dropped

    def outputs(self) -> tuple[Output, Output]:
        for which in (0, 1):
            self._trim(which)
        first, second = (
            Output(head=bytes(self._heads[which]), tail=bytes(self._tails[which]), dropped=self._dropped[which])
            for which in (0, 1)
        )
        return first, second

    def _keep(self, which: int, data: bytes) -> None:
        room = (self._max_bytes + 1) // 2 - len(self._heads[which])
        if room > 0:
            self._heads[which].extend(data[:room])
        tail = self._tails[which]
        tail += data[max(room, 0) :]
        if len(tail) > self._max_bytes // 2 + (64 << 10):
            self._trim(which)

    def _trim(self, which: int) -> None:
        over = len(self._tails[which]) - self._max_bytes // 2
        if self._live and over > 0:
            del self._tails[which][:over]
            self._dropped[which] += over


class PipeProcess:
    """Fits `gym.broker.provider.Process`."""

    def __init__(
        self,
        line: FrameSender,
        stream: int,
        options: Option,
        sink: OutputSink,
        argv: tuple[str, ...],
        *,
        name: str = "",
    ) -> None:
        self._line = line
        self._stream = stream
        self._options = options
        self._sink = sink
        self._argv = argv
        self._began = time.monotonic()
        self._unacknowledged = 0
        self._taken = [0, 0]  # live output not acknowledged yet
        self._credit = [frames.WINDOW, frames.WINDOW]  # how much live output may come yet
        self._held = False
        self._moved = asyncio.Event()  # input was taken, or the command has ended
        loop = asyncio.get_running_loop()
        self._started: asyncio.Future[int] = loop.create_future()
        self._ended: asyncio.Future[ResultFrame] = loop.create_future()
        self._peeked: asyncio.Future[None] | None = None
        self.name = name  # of a job that outlived the broker that started it

    @property
    def running(self) -> bool:
        return not self._ended.done()

    async def write(self, data: bytes) -> None:
        """Returns when all of it is sent; at once when the command has ended."""
        view = memoryview(data)
        while view and self.running:
            room = INPUT_WINDOW - self._unacknowledged
            if room <= 0:
                self._moved.clear()
                await self._moved.wait()
                continue
            piece = view[: min(frames.MAX, room)]
            self._unacknowledged += len(piece)
            self._line.send(frames.INPUT, self._stream, bytes(piece))
            view = view[len(piece) :]
        await self._line.drain()

    async def close_stdin(self) -> None:
        self._line.send(frames.INPUT_END, self._stream)

    async def resize(self, rows: int, columns: int) -> None:
        self._line.send(frames.RESIZE, self._stream, struct.pack("<HH", rows, columns))

    async def kill(self, signal: int = 9) -> None:
        self._line.send(frames.KILL, self._stream, struct.pack("<I", signal))
        await self._line.drain()

    async def wait_started(self) -> int:
        """Its pid inside."""
        return await asyncio.shield(self._started)

    async def wait_ended(self) -> ResultFrame:
        return await asyncio.shield(self._ended)

    async def wait(self) -> ExecResult:
        ended = await self.wait_ended()
        stdout, stderr = self._sink.outputs()
        return ExecResult(
            exit_code=ended.exit_code,
            signal=ended.signal,
            timed_out=ended.timed_out,
            oom=ended.oom,
            seconds=ended.seconds,
            cpu_seconds=ended.cpu_seconds,
            max_rss=ended.max_rss,
            stdout=stdout,
            stderr=stderr,
        )

    def result_so_far(self) -> ExecResult:
        stdout, stderr = self._sink.outputs()
        return ExecResult(seconds=time.monotonic() - self._began, stdout=stdout, stderr=stderr)

    async def peek(self) -> ExecResult:
        """As `result_so_far`, with the tail that the helper still keeps."""
        if self.running:
            if self._peeked is None:
                self._peeked = asyncio.get_running_loop().create_future()
                self._line.send(frames.PEEK, self._stream)
            await asyncio.shield(self._peeked)
        return self.result_so_far()

    def hold(self) -> None:
        """Stops acknowledging live output until `release`; the command then blocks in its next write."""
        self._held = True

    def release(self) -> None:
        self._held = False
        self._acknowledge(0)

    def abandon(self, why: RolloutError | None = None) -> None:
        """Ends it, if it runs, and ignores what it still sends."""
        if self.running:
            self._line.send(frames.KILL, self._stream, struct.pack("<I", frames.ABANDON))
            self.fail(why or RolloutError("cancelled", "its caller no longer waits for this command"))
        self._line.forget(self._stream)

    def fail(self, error: RolloutError) -> None:
        for future in (self._started, self._ended, self._peeked):
            if future is not None and not future.done():
                future.set_exception(error)
                future.exception()  # marked as retrieved: there may be no waiter
        self._moved.set()

    def take(self, frame: Frame) -> None:
        if frame.type in (frames.STDOUT, frames.STDERR):
            which = 1 if frame.type == frames.STDOUT else 2
            self._spend(which - 1, len(frame.body))
            self._sink.take(which, frame.body)
            self._taken[which - 1] += len(frame.body)
            self._acknowledge(CREDIT_EVERY)
        elif frame.type == frames.TAIL:
            which, fresh, dropped = frames.TAIL_HEAD.unpack_from(frame.body)
            if which > 1 or Option.LIVE in self._options:
                raise TooMuchSent("output")
            self._sink.take_tail(which, bool(fresh), dropped, frame.body[frames.TAIL_HEAD.size :])
        elif frame.type == frames.CONSUMED:
            self._unacknowledged = max(self._unacknowledged - struct.unpack("<I", frame.body)[0], 0)
            self._moved.set()
        else:
            self._take_state(frame)

    def _take_state(self, frame: Frame) -> None:
        if frame.type == frames.STARTED and not self._started.done():
            self._started.set_result(struct.unpack("<i", frame.body)[0])
        elif frame.type == frames.FAILED:
            stage, errno = struct.unpack("<Bi", frame.body)
            self.fail(CommandNotStarted(self._argv[0] if self._argv else self.name, stage, errno))
            self._line.forget(self._stream)
        elif frame.type == frames.RESULT:
            self._end(frames.decode_result(frame.body))
        elif frame.type == frames.PEEKED and self._peeked is not None:
            self._release_peek()

    def _end(self, ended: ResultFrame) -> None:
        if not self._started.done():
            self._started.set_result(0)
        if not self._ended.done():
            self._ended.set_result(ended)
        if Option.KEEP in self._options:
            self._line.send(frames.FORGET, self._stream)
        self._release_peek()
        self._moved.set()

    def _release_peek(self) -> None:
        peeked, self._peeked = self._peeked, None
        if peeked is not None and not peeked.done():
            peeked.set_result(None)

    def _spend(self, which: int, size: int) -> None:
        if Option.LIVE not in self._options:
            return
        self._credit[which] -= size
        if self._credit[which] < 0:  # else a listener that is slow would fill our memory
            raise TooMuchSent("live output")

    def _acknowledge(self, above: int) -> None:
        if Option.LIVE not in self._options or self._held:
            return
        for which in (0, 1):
            if self._taken[which] > above:
                self._line.send(frames.CREDIT, self._stream, struct.pack("<IB", self._taken[which], which))
                self._credit[which] += self._taken[which]
                self._taken[which] = 0
