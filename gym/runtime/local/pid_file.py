"""The record of every process a stack has: written before the process may do anything, read when no supervisor is left.

`sweep` ends whatever a killed command or supervisor left behind, by identity.
"""

from __future__ import annotations

import logging
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from gym import labels
from gym.files import write_atomically
from gym.runtime.identity import Identity, end_processes, find_leaders, find_session, is_alive
from gym.runtime.local.home import Home

log = logging.getLogger("gym.supervisor")

SWEEP_GRACE_SECONDS = 5.0  # leftovers have no callers: their supervisor is gone


class Record(BaseModel):
    """state.json: who supervises the stack, where it answers, and what it has started."""

    stack: str = ""
    supervisor: Identity
    control: str = ""
    router: str = ""
    warden: Identity | None = None  # starts another supervisor when this one is killed
    processes: dict[str, Identity] = Field(default_factory=dict)
    digests: dict[str, str] = Field(default_factory=dict)  # of what each was made from


class PidFile:
    """The supervisor's pen: each change is on disk when the call returns."""

    def __init__(self, home: Home, record: Record) -> None:
        self._path = home.state
        self._missed = False
        self._record = record
        self._write()

    def set_stack(self, stack: str, router: str) -> None:
        self._record.stack, self._record.router = stack, router
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

    def _write(self) -> bool:
        if not self._path.parent.is_dir():
            raise FileNotFoundError(f"{self._path.parent} is gone")
        return write_atomically(self._path, self._record.model_dump_json())


def read_record(home: Home) -> Record | None:
    """What is on disk; None for a file that cannot be read."""
    try:
        return Record.model_validate_json(home.state.read_bytes())
    except (OSError, ValidationError):
        return None


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
    record = read_record(home)
    owners = [record.warden, record.supervisor] if record else []
    supervisors = [one for one in owners if one is not None and is_alive(one)]
    # The warden first, then the supervisor: each would restart what is ended under it.
    for one in supervisors:
        end_processes([one], 0.0 if record and one == record.warden else SWEEP_GRACE_SECONDS)
    written = record.processes.values() if record else ()  # a leader may be gone and have left others in its session
    leaders = dict.fromkeys((*written, *(one for _, one in find_processes(home, record))))
    found = [member for leader in leaders for member in find_session(leader, marker(home))]
    end_processes(found, SWEEP_GRACE_SECONDS)
    home.state.unlink(missing_ok=True)
    return len(supervisors) + len(found)


def remove_published(home: Home) -> None:
    """What other processes read about a stack must not outlive it."""
    for path in (home.discovery, home.state, *_files(home.traefik)):
        path.unlink(missing_ok=True)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
