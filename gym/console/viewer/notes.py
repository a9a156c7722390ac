"""Flags and notes of people, kept beside a file of rollouts in `NAME_notes.jsonl`: one JSON object a change.

A change is one append and names only what it changes, so that two people at once lose nothing; of each field the last
change counts. The file can be read, and written, by hand.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from gym.console.viewer.columns import Columns
from gym.console.viewer.facts import parse_line
from gym.console.viewer.lines import LineFile
from gym.errors import UserError

SUFFIX = "_notes.jsonl"
MAX_NOTE = 20_000  # characters
OPEN = "chmod o+w results, then gym up again."
_FAILURES = "_failures"
_FAILED = "failed-"
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW
_OPENED = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True)
class RolloutNote:
    flag: bool = False
    note: str = ""
    at: str = ""  # of the last change
    line: int = 0  # where the rollout stood then; it may have moved

    def to_dict(self) -> dict[str, Any]:
        return {"flag": self.flag, "note": self.note, "at": self.at}


class NotesFile:
    """May be asked from several threads, and changed by several processes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unread = 0  # lines that say nothing we know
        self._notes: dict[str, RolloutNote] = {}
        self._state: tuple[int, ...] = ()
        self._lock = threading.Lock()

    @classmethod
    def beside(cls, rollouts: Path) -> NotesFile:
        """One for the rollouts and their failures."""
        stem = rollouts.name.removesuffix(".jsonl").removesuffix(_FAILURES)
        return cls(rollouts.with_name(f"{stem}{SUFFIX}"))

    def read(self) -> Mapping[str, RolloutNote]:
        """As it is now. Rollouts whose flag and note were taken back are not in it."""
        with self._lock:
            try:
                status = self.path.lstat()
                state: tuple[int, ...] = (status.st_ino, status.st_size, status.st_mtime_ns)
                data = _read_plain(self.path) if state != self._state else None
            except OSError:
                state, data = (), b""
            if data is not None:
                self._notes, self.unread = _read_changes(data.splitlines())
                self._state = state
            return self._notes

    def change(self, key: str, line: int, change: Mapping[str, Any]) -> RolloutNote:
        """Stores `flag`, `note` or both, of one rollout."""
        fields = _checked(change)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        entry = orjson.dumps({"at": now, "rollout": key, "line": line, **fields}) + b"\n"
        try:
            _append(self.path, entry)
        except OSError as error:
            raise UserError(f"{self.path} cannot be written: {error.strerror}.", "Nothing was stored.") from None
        return self.read().get(key, RolloutNote(at=now))

    def problem(self) -> str:
        """Why nothing can be stored here; "" when it can."""
        place = self.path if self.path.exists() else self.path.parent
        if self.path.is_symlink() or (self.path.exists() and not self.path.is_file()):
            return f"{self.path} is not a plain file: flags and notes cannot be stored."
        if not os.access(place, os.W_OK):
            return f"{place} is not writable: flags and notes cannot be stored. In a stack of containers: {OPEN}"
        return ""


class NotesBeside:
    """The notes of several files, by the lines that have them; what was found is kept while nothing changes."""

    def __init__(self, given: Callable[[Path], Path]) -> None:
        """`given`: file -> that of the user, where we made it of another."""
        self._given = given
        self._files: dict[Path, NotesFile] = {}
        self._found: dict[Path, tuple[Columns, Mapping[str, RolloutNote], dict[int, RolloutNote]]] = {}

    def of(self, file: LineFile) -> NotesFile:
        beside = NotesFile.beside(self._given(file.path))
        return self._files.setdefault(beside.path, beside)

    def find(self, file: LineFile) -> Mapping[int, RolloutNote]:
        """index -> note."""
        notes = self.of(file).read()
        columns, known, found = self._found.get(file.path, (None, None, {}))
        if columns is not file.columns or known is not notes:
            found = find_noted(file, notes)
            self._found[file.path] = file.columns, notes, found
        return found

    def flagged(self, file: LineFile) -> frozenset[int]:
        """Their lines as an editor counts them."""
        return frozenset(file.columns.numbers[index] for index, note in self.find(file).items() if note.flag)


def note_key(raw: bytes, *, failed: bool = False) -> str:
    """By what a rollout is known: its key. A failure, and what has no key, by the digest of its line."""
    if not failed:
        row, _ = parse_line(raw)
        stamp = row.get("_gym") if row is not None else None
        key = stamp.get("key") if isinstance(stamp, dict) else None
        if isinstance(key, str) and 0 < len(key) <= 200:
            return key
    return f"{_FAILED if failed else 'line-'}{hashlib.sha256(raw.strip()).hexdigest()[:16]}"


def find_noted(file: LineFile, notes: Mapping[str, RolloutNote]) -> dict[int, RolloutNote]:
    """index -> note: where they stood, or, after the file was rewritten, looked for."""
    found: dict[int, RolloutNote] = {}
    missing: dict[str, RolloutNote] = {}
    numbers = file.columns.numbers
    for key, note in notes.items():
        if key.startswith(_FAILED) != file.failed:
            continue
        index = bisect_left(numbers, note.line)
        if index < len(file) and numbers[index] == note.line and note_key(file.read(index), failed=file.failed) == key:
            found[index] = note
        else:
            missing[key] = note
    return found | (_search(file, missing) if missing else {})


def _search(file: LineFile, missing: Mapping[str, RolloutNote]) -> dict[int, RolloutNote]:
    digests = any(key.startswith(("line-", _FAILED)) for key in missing)
    signs = [orjson.dumps(key)[1:-1] for key in missing]
    found: dict[int, RolloutNote] = {}
    for index in range(len(file)):
        raw = file.read(index)
        if digests or any(sign in raw for sign in signs):
            note = missing.get(note_key(raw, failed=file.failed))
            if note is not None:
                found[index] = note
    return found


def _read_plain(path: Path) -> bytes:
    descriptor = os.open(path, _READ)
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return b""
        return stream.read()


def _read_changes(lines: Iterable[bytes]) -> tuple[dict[str, RolloutNote], int]:
    notes: dict[str, RolloutNote] = {}
    unread = 0
    for line in lines:
        if not line.strip():
            continue
        entry, _ = parse_line(line)
        key = entry.get("rollout") if entry is not None else None
        if entry is None or not isinstance(key, str):
            unread += 1
            continue
        notes[key] = _apply(notes.get(key, RolloutNote()), entry)
    return {key: note for key, note in notes.items() if note.flag or note.note}, unread


def _apply(note: RolloutNote, entry: Mapping[str, Any]) -> RolloutNote:
    flag, text, at, line = entry.get("flag"), entry.get("note"), entry.get("at"), entry.get("line")
    return replace(
        note,
        flag=flag if isinstance(flag, bool) else note.flag,
        note=text[:MAX_NOTE] if isinstance(text, str) else note.note,
        at=at[:40] if isinstance(at, str) else note.at,
        line=line if isinstance(line, int) and 0 <= line < 1 << 32 else note.line,
    )


def _checked(change: Mapping[str, Any]) -> dict[str, Any]:
    flag, note = change.get("flag"), change.get("note")
    if not change or set(change) - {"flag", "note"}:
        raise UserError(f"flag, note or both are expected, found {sorted(change)}")
    if "flag" in change and not isinstance(flag, bool):
        raise UserError(f"flag: true or false, found {str(flag)[:40]!r}")
    if "note" in change and not (isinstance(note, str) and len(note) <= MAX_NOTE):
        raise UserError(f"note: a text of at most {MAX_NOTE:,} characters")
    return dict(change)


def _append(path: Path, entry: bytes) -> None:
    """Whole or not at all; after a line that was cut off, on a line of its own."""
    descriptor = os.open(path, _OPENED, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        data = b"\n" + entry if torn else entry
        if os.write(descriptor, data) != len(data):
            os.ftruncate(descriptor, size)
            raise OSError(28, "No space left on device", str(path))
    finally:
        os.close(descriptor)
