"""Shell sessions: directory, variables and functions stay from one command to the next; each has its own output.

A command that takes too long is killed and the shell goes on; the shell ends only when it does not come back.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import shlex
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from gym.broker.errors import Busy, Lost, RequestRefused, Unknown
from gym.broker.provider import Channel, Process
from gym.wire.sandbox import ExecRequest, ExecResult, Output

MAX_SHELLS = 32  # of one sandbox
GRACE_SECONDS = 3.0  # for a shell to come back after its command was killed
FOREVER = 86400.0
THROTTLE_SECONDS = 0.02
# Kills whatever descends from $1, with what every /bin/sh has by itself; repeated until a round finds no process.
KILL_CHILDREN: Final = r"""
round() {
  found=
  family=" $1 "
  again=1
  while [ -n "$again" ]; do
    again=
    for stat in /proc/[0-9]*/stat; do
      { read -r line < "$stat"; } 2>/dev/null || continue
      pid=${line%% *}; rest=${line##*) }
      state=${rest%% *}; rest=${rest#* }; parent=${rest%% *}
      [ "$state" = Z ] && continue
      case "$family" in *" $pid "*) continue;; esac
      case "$family" in *" $parent "*) family="$family$pid "; found="$found $pid"; again=1;; esac
    done
  done
  [ -n "$found" ] && kill -9 $found 2>/dev/null
}
tries=0
while round "$1" && [ $tries -lt 20 ]; do tries=$((tries+1)); done
"""


class MarkReader:
    """Reads one stream of a shell up to the mark, and the exit code behind it."""

    def __init__(self, mark: bytes, max_bytes: int) -> None:
        self._end = re.compile(rb"\n" + mark + rb" (\d+)\n")
        self._hold = len(mark) + 16  # so many bytes may be the beginning of the mark
        self._pending = b""
        self.kept = BoundedOutput(max_bytes)
        self.found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def feed(self, data: bytes) -> None:
        if self.found.done():
            return
        self._pending += data
        match = self._end.search(self._pending)
        if match is not None:
            self.kept.add(self._pending[: match.start()])
            self._pending = b""
            self.found.set_result(int(match[1]))
        elif len(self._pending) > self._hold:
            self.kept.add(self._pending[: -self._hold])
            self._pending = self._pending[-self._hold :]

    def give_up(self) -> None:
        self.kept.add(self._pending)
        self._pending = b""


@dataclass(eq=False)
class ShellSession:
    id: str
    user: str | None
    process: Process | None = None
    pid: int = 0
    ended: bool = False
    seekers: tuple[MarkReader, MarkReader] | None = None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def heard(self, stream: int, data: bytes) -> None:
        if self.seekers is None:
            return
        seeker = self.seekers[stream - 1]
        seeker.feed(data)
        if seeker.kept.dropped and self.process is not None:  # what is thrown away need not come fast
            self.process.hold()
            asyncio.get_running_loop().call_later(THROTTLE_SECONDS, self.process.release)


class ShellHost(Protocol):
    """The sandbox that shells run in, as far as they need it."""

    shells: dict[str, ShellSession]

    @property
    def id(self) -> str: ...

    async def channel_for(self, user: str | None = None) -> Channel: ...


async def open_shell(entry: ShellHost, request: ExecRequest) -> ShellSession:
    """`argv` names the shell (/bin/sh where it is empty words); cwd, env and user are as for a command."""
    if len(entry.shells) >= MAX_SHELLS:
        raise Busy(f"sandbox {entry.id} has {MAX_SHELLS} shells open", 5.0)
    channel = await entry.channel_for(request.user)
    shell = ShellSession(f"h{secrets.token_hex(5)}", request.user)
    shell.process = await channel.start(request.model_copy(update={"stdin": b"", "timeout": FOREVER}), shell.heard)
    entry.shells[shell.id] = shell
    try:
        result = await run_in_shell(entry, shell, 'printf "%s" "$$"', 30.0, 1 << 12)
        shell.pid = int(result.stdout.text.strip())
    except (ValueError, Lost):
        await close_shell(entry, shell)
        raise RequestRefused(f"{request.words()[0]} did not answer as a POSIX shell does", 422) from None
    return shell


async def run_in_shell(
    entry: ShellHost, shell: ShellSession, command: str, timeout: float, max_bytes: int
) -> ExecResult:
    """One command at a time; others wait for their turn."""
    if "\0" in command:
        raise RequestRefused("command: a NUL byte cannot be part of a shell's command", 422)
    async with shell.turn:
        if shell.ended or shell.process is None:
            raise Lost(f"shell {shell.id} of sandbox {entry.id} has ended")
        mark = secrets.token_hex(12).encode()
        shell.seekers = (MarkReader(mark, max_bytes), MarkReader(mark, max_bytes))
        try:
            return await _run(entry, shell, shell.process, command, timeout, mark.decode())
        except asyncio.CancelledError:
            await asyncio.shield(close_shell(entry, shell))  # its state is unknown from here on
            raise
        finally:
            shell.seekers = None


async def close_shell(entry: ShellHost, shell: ShellSession) -> None:
    shell.ended = True
    entry.shells.pop(shell.id, None)
    if shell.process is not None and shell.process.running:
        await shell.process.kill()


def find_shell(entry: ShellHost, shell_id: str) -> ShellSession:
    shell = entry.shells.get(shell_id)
    if shell is None:
        raise Unknown(f"sandbox {entry.id} has no shell {shell_id[:80]!r}")
    return shell


async def _run(
    entry: ShellHost, shell: ShellSession, process: Process, command: str, timeout: float, mark: str
) -> ExecResult:
    assert shell.seekers is not None
    out, err = shell.seekers
    loop = asyncio.get_running_loop()
    began = loop.time()
    print_mark = f'gym_code=$?; printf "\\n%s %d\\n" {mark} $gym_code; printf "\\n%s %d\\n" {mark} $gym_code >&2'
    await process.write(
        f"command eval {shlex.quote(command)} </dev/null; {print_mark}\n".encode("utf-8", "surrogateescape")
    )
    timed_out = not await _marked(process, out, err, timeout)
    if timed_out and process.running:
        await _kill_command(entry, shell)
        await _marked(process, out, err, GRACE_SECONDS)
    result = ExecResult(timed_out=timed_out and process.running, seconds=loop.time() - began)
    if not (out.found.done() and err.found.done()):
        await close_shell(entry, shell)
        last = await process.wait()
        ended_by_itself = not result.timed_out
        code, signal = (last.exit_code, last.signal) if ended_by_itself else (None, 9)
        result = result.model_copy(update={"exit_code": code, "signal": signal})
    else:
        result = result.model_copy(update={"exit_code": out.found.result()})
    for seeker in (out, err):
        seeker.give_up()
    return result.model_copy(update={"stdout": out.kept.output(), "stderr": err.kept.output()})


async def _marked(process: Process, out: MarkReader, err: MarkReader, seconds: float) -> bool:
    """True when the shell came back in time; False also when it ended."""
    ended: asyncio.Future[Any] = asyncio.ensure_future(process.wait())
    both: asyncio.Future[Any] = asyncio.gather(asyncio.shield(out.found), asyncio.shield(err.found))
    try:
        await asyncio.wait({ended, both}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if ended.done() and not both.done():
            await asyncio.sleep(0)
        return both.done()
    finally:
        ended.cancel()
        both.cancel()
        await asyncio.gather(ended, both, return_exceptions=True)


async def _kill_command(entry: ShellHost, shell: ShellSession) -> None:
    if not shell.pid:
        return
    channel = await entry.channel_for(shell.user)
    argv = ("/bin/sh", "-c", KILL_CHILDREN, "kill", str(shell.pid))
    await channel.exec(ExecRequest(argv=argv, timeout=10.0))


class BoundedOutput:
    """The head and the tail of a stream within a bound, and how much of its middle is gone."""

    def __init__(self, max_bytes: int) -> None:
        self._half = max(max_bytes // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()  # not pieces: of a byte each they would take fifty times as much
        self.dropped = 0

    def add(self, data: bytes) -> None:
        room = self._half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if not data:
            return
        self._tail += data
        if len(self._tail) > 2 * self._half:
            self._trim()

    def output(self) -> Output:
        self._trim()
        return Output(head=bytes(self._head), tail=bytes(self._tail), dropped=self.dropped)

    def _trim(self) -> None:
        over = max(len(self._tail) - self._half, 0)
        del self._tail[:over]
        self.dropped += over
