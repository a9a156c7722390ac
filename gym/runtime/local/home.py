"""The folder that holds a stack's state: which file is what, who may read it, and one command at a time.

The folder is private to its owner; nothing in it holds the value of a secret, but for the tokens of a sandbox broker
and the keys of providers that a trainer named at run time.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gym.errors import InfraError, UserError
from gym.runtime.user_state import at_work
from gym.wire.stack_names import UPSTREAM_FOLDER

ROOM_BYTES = 64 * 1024


@dataclass(frozen=True)
class Home:
    """`.gym/<stack>` and the files below it."""

    path: Path

    @property
    def plan(self) -> Path:
        return self.path / "plan.json"

    @property
    def state(self) -> Path:
        return self.path / "state.json"

    @property
    def discovery(self) -> Path:
        return self.path / "discovery.json"

    @property
    def console(self) -> Path:
        return self.path / "console.json"

    @property
    def session(self) -> Path:
        """Written by the command line: which runtime holds the stack."""
        return self.path / "session.json"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def notes(self) -> Path:
        """What the supervisor and the broker tell the console."""
        return self.path / "notes"

    @property
    def traefik(self) -> Path:
        return self.path / "traefik"

    @property
    def services(self) -> Path:
        """One folder for each sidecar, by its slug: what it stores."""
        return self.path / "services"

    @property
    def upstreams(self) -> Path:
        """Addresses that models got at run time. A key may stand in them."""
        return self.path / UPSTREAM_FOLDER

    @property
    def command_lock(self) -> Path:
        return self.path / "lock"

    @property
    def supervisor_lock(self) -> Path:
        return self.path / "supervisor.lock"

    def log(self, process: str) -> Path:
        return self.logs / f"{process}.log"


def prepare_home(path: Path) -> Home:
    """Make the folders, private; a folder that cannot be written is the user's to fix."""
    home = Home(path.resolve())
    try:
        for folder in (home.path, home.logs, home.notes, home.traefik):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        home.path.chmod(0o700)
        _check_room(home.path)
    except OSError as error:
        raise unwritable(home.path, error) from error
    return home


def folder_id(path: Path | int) -> tuple[int, int] | None:
    """Which folder it is, whatever it is called, or which one is open as this number; None when there is none."""
    try:
        found = os.fstat(path) if isinstance(path, int) else path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def unwritable(path: Path, error: OSError) -> UserError | InfraError:
    """Why the state of a stack cannot be kept, and what to do about it."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return InfraError(
            f"no space left for the stack's state in {path}.", f"Free some (df -h {path}), then try again."
        )
    return UserError(
        f"the stack's state cannot be written to {path}: {error.strerror}.",
        "Run gym from a folder you may write to.",
    )


def _check_room(folder: Path) -> None:
    """Room for what every stack writes, so that a full disk is found here and not by a supervisor."""
    trial = folder / f".room.{os.getpid()}"
    try:
        trial.write_bytes(bytes(ROOM_BYTES))
    finally:
        trial.unlink(missing_ok=True)


@contextlib.contextmanager
def one_command(home: Home) -> Iterator[None]:
    """Two commands never work on one stack at once; the lock ends with the process that holds it, however that ends."""
    with _lock(home.command_lock) as holder:
        if holder is not None:
            raise UserError(
                f"another gym command{f' (pid {holder})' if holder else ''} works on the stack in {home.path}.",
                "Wait for it or end it by Ctrl-C, then try again.",
            )
        with at_work():
            yield


@contextlib.contextmanager
def only_supervisor(home: Home) -> Iterator[bool]:
    """True for the one supervisor a stack may have."""
    with _lock(home.supervisor_lock) as holder:
        yield holder is None


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[str | None]:
    """None while we hold it, else the pid its holder wrote down."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield os.read(descriptor, 20).decode().strip()
            return
        with contextlib.suppress(OSError):  # a full disk; the lock itself needs no room
            os.ftruncate(descriptor, 0)
            os.write(descriptor, str(os.getpid()).encode())
        yield None
    finally:
        os.close(descriptor)
