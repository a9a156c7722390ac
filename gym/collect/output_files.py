"""The files of a collection: locked, described by a sidecar, read back for a resume, moved aside by a fresh start."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from gym.collect.keys import DoneKeys, parse_key
from gym.collect.result_file import damaged_line, refuse_byte_order_mark, result_file
from gym.collect.run_replies import STAMP
from gym.collect.sidecar import OutputPaths, StackOfRun, check_sidecar, has_only_failures_of_another_run
from gym.errors import InfraError, UserError

_FIELD = b'"' + STAMP.encode() + b'":'
_MARK = _FIELD + b'{"key":"'
_TAIL = 8192  # the stamp is the last field and shorter than this
_BUFFER = 4 << 20

OnDone = Callable[[str, float | None, str], object]  # agent, reward (None: failed), kind of failure


@dataclass(slots=True)
class OutputFiles:
    """Open, locked files. `done` holds the keys that earlier runs finished."""

    paths: OutputPaths
    rollouts: int  # descriptors
    failures: int
    done: DoneKeys = field(default_factory=DoneKeys)
    notices: list[str] = field(default_factory=list)
    identity: Mapping[str, Any] = field(default_factory=dict)  # of the run, the data set's digest included

    def close(self) -> None:
        for descriptor in (self.rollouts, self.failures):
            os.close(descriptor)


def open_output(
    path: Path, identity: Mapping[str, Any], *, fresh: bool, on_done: OnDone, stack: StackOfRun | None = None
) -> OutputFiles:
    """Ready to append to. Refuses what another collector holds, and what another kind of run or stack wrote."""
    paths = OutputPaths.beside(path)
    try:
        return _open(paths, identity, fresh, on_done, stack or StackOfRun())
    except OSError as error:
        raise InfraError(
            f"cannot write to {error.filename or path}: {error.strerror or error}", "choose another place with -o"
        ) from error


def _open(
    paths: OutputPaths, identity: Mapping[str, Any], fresh: bool, on_done: OnDone, stack: StackOfRun
) -> OutputFiles:
    paths.rollouts.parent.mkdir(parents=True, exist_ok=True)
    notices: list[str] = []
    rollouts = _lock(paths)
    failures = -1
    try:
        starts_over = fresh or has_only_failures_of_another_run(paths, identity, os.fstat(rollouts).st_size)
        if starts_over and (moved := _move_aside(paths)):
            notices.append(f"the old files are now {', '.join(one.name for one in moved)}")
            if not paths.rollouts.exists():
                moved_away, rollouts = rollouts, _lock(paths)
                os.close(moved_away)
        notices += check_sidecar(paths, identity, os.fstat(rollouts).st_size, stack)
        failures = _open_to_append(paths.failures)
        output = OutputFiles(paths, rollouts, failures, notices=notices, identity=identity)
        _read_back(output, on_done)
    except BaseException:
        for descriptor in (rollouts, failures):
            if descriptor >= 0:
                os.close(descriptor)
        raise
    return output


def _lock(paths: OutputPaths) -> int:
    """The output, open for appending and ours alone; it is still the file of that name once it is locked."""
    if paths.rollouts.exists() and not paths.rollouts.is_file():
        raise UserError(f"{paths.rollouts} is not a regular file", "choose another -o")
    while True:
        descriptor = _open_to_append(paths.rollouts)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if paths.rollouts.exists() and os.path.samestat(paths.rollouts.stat(), os.fstat(descriptor)):
                return descriptor
        except OSError as error:
            os.close(descriptor)
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            raise UserError(
                f"another collector{_holder(paths.run)} writes to {paths.rollouts}", "wait for it, or choose another -o"
            ) from error
        os.close(descriptor)


def _holder(run: Path) -> str:
    try:
        return f" (process {orjson.loads(run.read_bytes())['pid']})"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _move_aside(paths: OutputPaths) -> list[Path]:
    """X.jsonl becomes X.20260101-120000.jsonl, its companions likewise. Nothing is deleted."""
    stem = paths.rollouts.stem if paths.rollouts.suffix == ".jsonl" else paths.rollouts.name
    there = [path for path in paths.all() if path.exists() and path.stat().st_size]
    stamp = time.strftime("%Y%m%d-%H%M%S")
    base, number = stamp, 1
    while any(_aside(path, stem, stamp).exists() for path in there):
        number += 1
        stamp = f"{base}-{number}"
    # The output goes last: until then a crash leaves a run that can be resumed or moved.
    return [path.rename(_aside(path, stem, stamp)) for path in reversed(there)]


def _aside(path: Path, stem: str, stamp: str) -> Path:
    return path.with_name(f"{stem}.{stamp}{path.name.removeprefix(stem)}")


def _read_back(output: OutputFiles, on_done: OnDone) -> None:
    paths = output.paths
    cut = scan_lines(paths.rollouts, output.rollouts, output.done, on_done)
    if cut:
        output.notices.append(
            f"{paths.rollouts.name} ended in a torn line of {cut} bytes; it was cut off, and its row is retried"
        )
    _keep_terminal_failures(output, on_done)


def _keep_terminal_failures(output: OutputFiles, on_done: OnDone) -> None:
    """Failures of the infrastructure are retried, so they leave the file; those of a row stay."""
    path = output.paths.failures
    if not path.stat().st_size:
        return
    dropped = 0
    with path.open("rb", buffering=_BUFFER) as old, result_file(path, replace=True) as new:
        for text in old:
            line = text.removeprefix(BOM_UTF8)  # another program's
            stamp, kind = _read_failure(line)
            if kind and stamp.get("terminal") and output.done.add(*parse_key(stamp["key"])):
                new.write(line)
                on_done(str(stamp.get("agent", "")), None, kind)
            else:
                dropped += bool(kind)  # the others are torn or damaged
    os.close(output.failures)
    output.failures = _open_to_append(path)
    if dropped:
        output.notices.append(f"{dropped} failed rollouts of the last run are retried")


def scan_lines(path: Path, descriptor: int, done: DoneKeys, on_done: OnDone) -> int:
    """Adds every key to `done`, cuts a torn last line and says how long it was. Looks at a line's end only, which may
    be CRLF: some program turned all of them."""
    whole = number = 0
    with path.open("rb", buffering=_BUFFER) as stream:
        for number, line in enumerate(stream, 1):
            if not line.endswith(b"\n"):
                os.ftruncate(descriptor, whole)
                return len(line)
            if number == 1:
                refuse_byte_order_mark(path, line)
            stamp = _read_stamp(line)
            if stamp is None or not isinstance(reward := stamp.get("reward"), (int, float)):
                raise damaged_line(path, number)
            whole += len(line)
            if done.add(*parse_key(stamp["key"])):
                on_done(str(stamp.get("agent", "")), reward, "")
    return 0


def _read_stamp(line: bytes) -> dict[str, Any] | None:
    at = line.rfind(_MARK, max(0, len(line) - _TAIL))
    try:
        stamp = orjson.loads(line[at + len(_FIELD) :].rstrip()[:-1]) if at >= 0 else orjson.loads(line)[STAMP]
        parse_key(stamp["key"])
    except (ValueError, KeyError, TypeError):
        return None
    return stamp if isinstance(stamp, dict) else None


def _read_failure(line: bytes) -> tuple[dict[str, Any], str]:
    """Its stamp and its kind; no kind where the line is torn or damaged."""
    stamp = _read_stamp(line) if line.endswith(b"\n") else None
    try:
        return (stamp, str(orjson.loads(line)["kind"])) if stamp else ({}, "")
    except (ValueError, KeyError, TypeError):
        return {}, ""


def _open_to_append(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
