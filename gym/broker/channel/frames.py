"""The bytes between a broker and a helper: frames, what a command should be, what became of it. No I/O."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from enum import IntFlag
from typing import Final, NamedTuple

from gym.wire.sandbox import FileInfo, Rlimits

PROTOCOL: Final = 1
HEAD: Final = struct.Struct("<BII")  # type, stream, length
END: Final = b"\xa5"
MAX: Final = 65536
WINDOW: Final = 1 << 20  # live output that may be under way; the helper's own number
LONGEST: Final = 1 << 20  # of what the helper sends; more means that the two are out of step
PADDING: Final = bytes(MAX + HEAD.size + 1)  # completes, and spoils, whatever frame a dead broker left unfinished

HELLO, SPEC, GO, INPUT, INPUT_END = b"HRGIE"
KILL, RESIZE, PING, CREDIT, PEEK, FORGET = b"KWPCQX"
HELLO_BACK, STARTED, STDOUT, STDERR, TAIL, RESULT, FAILED, PONG, CONSUMED, PEEKED = b"hsoetrxpwq"
ABANDON: Final = 256  # a `KILL` that wants no answer

OPTIONS: Final = struct.Struct("<IQQHH")
ITEM: Final = struct.Struct("<BI")
LIMIT: Final = struct.Struct("<iQ")
RESULT_BODY: Final = struct.Struct("<iiBddQ")
TAIL_HEAD: Final = struct.Struct("<BBQ")
HELLO_BODY: Final = struct.Struct("<16sHIIII")
LIMITS: Final = {"cpu_seconds": 0, "file_size": 1, "processes": 6, "open_files": 7, "memory": 9}  # Linux's numbers
STAGES: Final = {
    1: "no process could be started",
    2: "the working directory cannot be entered",
    3: "the command cannot be run",
    4: "no terminal could be opened",
    5: "a limit cannot be set",
    6: "",
    7: "the command line is too long",
}


class Frame(NamedTuple):
    type: int
    stream: int
    body: bytes


class Option(IntFlag):
    LIVE = 1
    TTY = 2
    BUILTIN = 4
    KILL_LEFTOVERS = 8
    KEEP = 16


class ResultFrame(NamedTuple):
    """What a `RESULT` frame says."""

    exit_code: int | None
    signal: int | None
    timed_out: bool
    oom: bool
    lost: bool
    seconds: float
    cpu_seconds: float
    max_rss: int


class FrameError(ValueError):
    """The bytes are not frames."""


def encode_frame(type: int, stream: int, body: bytes = b"") -> bytes:
    return HEAD.pack(type, stream, len(body)) + body + END


class FrameDecoder:
    """Bytes in, frames out; what is not whole yet waits."""

    def __init__(self, start: bytes = b"") -> None:
        self._waiting = bytearray(start)

    def feed(self, data: bytes) -> Iterator[Frame]:
        waiting = self._waiting
        waiting += data
        at = 0
        try:
            while len(waiting) - at >= HEAD.size:
                kind, stream, length = HEAD.unpack_from(waiting, at)
                if length > LONGEST:
                    raise FrameError(f"a frame of {length} bytes")
                end = at + HEAD.size + length
                if len(waiting) <= end:
                    return
                if waiting[end] != END[0]:
                    raise FrameError("a frame without its end")
                body = bytes(waiting[at + HEAD.size : end])
                at = end + 1
                yield Frame(kind, stream, body)
        finally:
            del waiting[:at]


def find_hello(seen: bytes, nonce: bytes) -> int | None:
    """Where the answer to our HELLO begins in what came, or None: everything before it belongs to an earlier client."""
    at = seen.find(nonce)
    while at >= 0 and (at < HEAD.size or seen[at - HEAD.size] != HELLO_BACK):
        at = seen.find(nonce, at + 1)
    return at - HEAD.size if at >= 0 else None


def decode_hello(body: bytes) -> tuple[int, tuple[tuple[int, str], ...]]:
    """(pid, ((stream, name), ...)) of a helper."""
    try:
        _, version, pid, _, _, count = HELLO_BODY.unpack_from(body)
    except struct.error:
        raise FrameError("a hello that is too short") from None
    if version != PROTOCOL:
        raise FrameError(f"a helper that speaks version {version}, not {PROTOCOL}")
    at, kept = HELLO_BODY.size, []
    for _ in range(count):
        if at + 8 > len(body):
            raise FrameError("a hello that names more jobs than it holds")
        stream, length = struct.unpack_from("<II", body, at)
        kept.append((stream, body[at + 8 : at + 8 + length].decode("utf-8", "replace")))
        at += 8 + length
    return pid, tuple(kept)


def encode_text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    if b"\0" in data:
        raise ValueError(f"{text[:80]!r} holds a zero byte, which neither a command nor a path can")
    return data


def encode_spec(
    argv: Sequence[str],
    options: Option,
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    timeout: float | None = None,
    max_output: int = 0,
    tty: tuple[int, int] | None = None,
    limits: Rlimits | None = None,
    name: str | None = None,
) -> bytes:
    rows, columns = tty or (0, 0)
    milliseconds = max(1, round(timeout * 1000)) if timeout else 0
    items = [(b"o", OPTIONS.pack(options, milliseconds, max_output, rows, columns))]
    items += [(b"a", encode_text(word)) for word in argv]
    for key, value in (env or {}).items():
        if not key or "=" in key:
            raise ValueError(f"{key!r} is not a name of an environment variable")
        items.append((b"e", encode_text(f"{key}={value}")))
    items += [(tag, encode_text(text)) for tag, text in ((b"c", cwd), (b"n", name)) if text is not None]
    for field, number in LIMITS.items():
        value_of = getattr(limits, field) if limits is not None else None
        if value_of is not None:
            items.append((b"l", LIMIT.pack(number, value_of)))
    return b"".join(ITEM.pack(tag[0], len(data)) + data for tag, data in items)


def encode_run(stream: int, spec: bytes) -> bytes:
    pieces = [encode_frame(SPEC, stream, spec[at : at + MAX]) for at in range(0, len(spec), MAX)]
    return b"".join([*pieces, encode_frame(GO, stream)])


def decode_result(body: bytes) -> ResultFrame:
    code, signal, flags, seconds, cpu, rss = RESULT_BODY.unpack(body)
    ended_by = signal or None
    return ResultFrame(
        None if ended_by else code, ended_by, bool(flags & 1), bool(flags & 2), bool(flags & 4), seconds, cpu, rss
    )


def decode_entries(data: bytes) -> Iterator[FileInfo]:
    """What `stat` and `list` print: eight fields an entry, each ended by a zero byte."""
    fields = data.split(b"\0")
    for at in range(0, len(fields) - 8, 8):
        kind, size, mode, mtime, uid, gid, path, target = fields[at : at + 8]
        yield FileInfo.model_validate(
            {
                "kind": kind.decode(),
                "size": int(size),
                "mode": int(mode, 8),
                "mtime": float(mtime),
                "uid": int(uid),
                "gid": int(gid),
                "path": path.decode("utf-8", "backslashreplace"),
                "target": target.decode("utf-8", "backslashreplace") if kind == b"link" else None,
            }
        )
