"""What is known of a user's stacks from any folder: who the user is, and where stacks were started.

A note about a folder claims nothing more: whether a stack runs is asked of its processes, or of the engine.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Final, NamedTuple

import orjson

from gym.files import write_atomically
from gym.runtime.runtime_names import RuntimeName

ENV_OWNER: Final = "GYM_OWNER"
HOMES: Final = "stacks"  # a note for each folder in which a stack was started
RUNNING: Final = "running"  # a note for each local stack, from its start to its end


class KnownHome(NamedTuple):
    home: Path
    stack: str
    runtime: RuntimeName
    owner: str


def owner() -> str:
    """`gym down --all` takes only what belongs to its user. GYM_OWNER separates users who share an account."""
    return os.environ.get(ENV_OWNER) or str(os.getuid())


def state_dir(environ: Mapping[str, str] = os.environ) -> Path:
    base = environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "compose-gym"


@contextlib.contextmanager
def at_work() -> Iterator[None]:
    """While inside, `gym prune` removes nothing: an image or an environment may be chosen, and not used yet."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            fcntl.flock(stack.enter_context(_work_lock()), fcntl.LOCK_SH)
        yield


@contextlib.contextmanager
def no_other_command() -> Iterator[bool]:
    """True while no other command of this user changes a stack; those that begin meanwhile wait."""
    with _work_lock() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _work_lock() -> IO[bytes]:
    state_dir().mkdir(parents=True, exist_ok=True)
    return (state_dir() / "work.lock").open("ab")


def note_of(kind: str, home: Path) -> Path:
    return state_dir() / kind / f"{hashlib.sha256(os.fsencode(home)).hexdigest()[:24]}.json"


def notes(kind: str) -> list[Path]:
    return sorted((state_dir() / kind).glob("*.json"))


def remember_home(home: Path, stack: str, runtime: RuntimeName) -> None:
    """Before anything is started there. A user without a writable state folder has stacks all the same."""
    known = KnownHome(home=home.resolve(), stack=stack, runtime=runtime, owner=owner())
    with contextlib.suppress(OSError):
        write_atomically(note_of(HOMES, known.home), orjson.dumps(known._asdict(), default=str).decode())


def known_homes() -> Iterator[KnownHome]:
    """Folders of this user that are still there."""
    for path in notes(HOMES):
        known = _read_home(path)
        if known and known.owner == owner() and known.home.is_dir():
            yield known


def forget_lost_homes() -> None:
    """Notes about folders that are gone."""
    for path in notes(HOMES):
        if (known := _read_home(path)) and not known.home.is_dir():
            path.unlink(missing_ok=True)


def _read_home(path: Path) -> KnownHome | None:
    try:
        found = orjson.loads(path.read_bytes())
        return KnownHome(Path(found["home"]), found["stack"], found["runtime"], found["owner"])
    except (OSError, ValueError, LookupError, TypeError):
        return None
