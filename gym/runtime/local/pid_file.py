"""The record of every process a stack has: written before the process may do anything, read when no supervisor is left.

It lies in the stack's folder, and once more among the user's notes, where it is found when that folder is gone.
`sweep` ends whatever a killed command or supervisor left behind, by identity.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from gym import labels
from gym.files import write_atomically
from gym.runtime.identity import Identity, end_processes, find_leaders, find_session, is_alive
from gym.runtime.local.home import Home
from gym.runtime.user_state import RUNNING, note_of, notes, owner

log = logging.getLogger("gym.supervisor")

UNREADABLE = (OSError, ValueError, LookupError, TypeError, AttributeError)
SWEEP_GRACE_SECONDS = 5.0  # leftovers have no callers: their supervisor is gone


@dataclass
class Record:
    """state.json: who supervises the stack, where it answers, and what it has started."""

    supervisor: Identity
    stack: str = ""
    control: str = ""
    router: str = ""
    warden: Identity | None = None  # starts another supervisor when this one is killed
    processes: dict[str, Identity] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)  # of what each was made from
    pythons: tuple[str, ...] = ()  # the interpreters of its servers: one that waits for a restart has no process


@dataclass(frozen=True)
class StackNote:
    """What every command of the user finds, from whatever folder, as long as the stack runs."""

    home: Path
    owner: str
    since: float  # seconds since the epoch
    record: Record


class PidFile:
    """The supervisor's pen: each change is on disk when the call returns."""

    def __init__(self, home: Home, record: Record) -> None:
        self._home = home
        self._path = home.state
        self._missed = False
        self._record = record
        self._since = _began(home, record)
        self._write()

    def set_stack(self, stack: str, router: str, pythons: Iterable[str] = ()) -> None:
        self._record.stack, self._record.router = stack, router
        self._record.pythons = tuple(sorted(set(pythons)))
        self._write()

    def set_control(self, path: str) -> None:
        self._record.control = path
        self._write()

    def add(self, name: str, identity: Identity, digest: str = "") -> None:
        self._record.processes[name] = identity
        self._record.digests[name] = digest
        self._write()

    def drop(self, name: str) -> None:
        self._record.processes.pop(name, None)
        self._record.digests.pop(name, None)
        try:
            self._write()
        except OSError as error:  # a record of a process that ended does no harm: a process is known by its start
            log.error("%s: its end could not be recorded: %s", name, error)

    def repair(self) -> bool:
        """True when the file had to be rewritten: something else changed it. A missing file is rewritten at
        the second look: a user who removes the whole folder should not find new files in it."""
        missed, self._missed = self._missed, not self._path.exists()
        return (missed or not self._missed) and self._write()

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
        forget_note(self._home)

    def _write(self) -> bool:
        if not self._path.parent.is_dir():
            raise FileNotFoundError(f"{self._path.parent} is gone")
        self._write_note()
        return write_atomically(self._path, orjson.dumps(self._record).decode())

    def _write_note(self) -> None:
        """A stack of a user without a writable state folder runs all the same; it is found from its own folder."""
        note = StackNote(home=self._home.path, owner=owner(), since=self._since, record=self._record)
        with contextlib.suppress(OSError):
            write_atomically(note_of(RUNNING, self._home.path), orjson.dumps(note, default=str).decode())


def read_record(home: Home) -> Record | None:
    """What is on disk; None for a file that cannot be read."""
    try:
        return _record_of(orjson.loads(home.state.read_bytes()))
    except UNREADABLE:
        return None


def read_notes() -> Iterator[StackNote]:
    """Of this user's stacks; one that was killed by force may have left one behind."""
    for path in notes(RUNNING):
        if (note := _read_note(path)) and note.owner == owner():
            yield note


def read_note(home: Home) -> StackNote | None:
    return _read_note(note_of(RUNNING, home.path))


def forget_note(home: Home) -> None:
    with contextlib.suppress(OSError):
        note_of(RUNNING, home.path).unlink()


def _began(home: Home, record: Record) -> float:
    """A supervisor that carries on, under the same warden, has not begun the stack."""
    note = read_note(home)
    carries_on = note is not None and record.warden is not None and note.record.warden == record.warden
    return note.since if note and carries_on else time.time()


def _read_note(path: Path) -> StackNote | None:
    try:
        found = orjson.loads(path.read_bytes())
        return StackNote(Path(found["home"]), str(found["owner"]), float(found["since"]), _record_of(found["record"]))
    except UNREADABLE:
        return None


def _record_of(found: Mapping[str, Any]) -> Record:
    """Written by hand: every command reads it, and to import pydantic takes longer than all else that `gym ps` does."""
    return Record(
        supervisor=_identity_of(found["supervisor"]),
        stack=str(found["stack"]),
        control=str(found["control"]),
        router=str(found["router"]),
        warden=_identity_of(found["warden"]) if found["warden"] else None,
        processes={name: _identity_of(one) for name, one in found["processes"].items()},
        digests=dict(found["digests"]),
        pythons=tuple(found.get("pythons", ())),
    )


def _identity_of(found: Mapping[str, Any]) -> Identity:
    return Identity(int(found["pid"]), str(found["start"]))


def marker(home: Home) -> str:
    """What every process of this stack carries in its environment."""
    return f"{labels.ENV_DISCOVERY}={home.discovery}"


def find_processes(home: Home, record: Record | None) -> list[tuple[str, Identity]]:
    """The live processes of a stack: those recorded, then, where that file was lost, those with its marker."""
    known = [(name, one) for name, one in record.processes.items() if is_alive(one)] if record else []
    found = find_leaders(marker(home), labels.ENV_REPLICA)
    return [*known, *(one for one in found if one not in known)]


def sweep(home: Home) -> int:
    """End what is recorded and still lives; how many that were."""
    note = read_note(home)
    record = read_record(home) or (note.record if note else None)
    owners = [record.warden, record.supervisor] if record else []
    supervisors = [one for one in owners if one is not None and is_alive(one)]
    # The warden first, then the supervisor: each would restart what is ended under it.
    for one in supervisors:
        end_processes([one], 0.0 if record and one == record.warden else SWEEP_GRACE_SECONDS)
    written = record.processes.values() if record else ()  # a leader may be gone and have left others in its session
    leaders = dict.fromkeys((*written, *(one for _, one in find_processes(home, record))))
    found = [member for leader in leaders for member in find_session(leader, marker(home))]
    end_processes(found, SWEEP_GRACE_SECONDS)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        home.state.unlink()
    forget_note(home)
    return len(supervisors) + len(found)


def remove_published(home: Home) -> None:
    """What other processes read about a stack must not outlive it."""
    for path in (home.discovery, home.state, *_files(home.traefik)):
        path.unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
