"""Down: everything that a stack of containers started is gone, also where a command was cut off.

It checks nothing that it reads: to import what does takes as long as to stop the containers.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

from gym.engine import connect, engine_host, require_engine
from gym.errors import InfraError
from gym.files import SHARED, read_object, write_atomically
from gym.runtime.compose.compose_lock import wait_for_compose
from gym.runtime.compose.stack_folder import StackFolder
from gym.runtime.compose.teardown import GRACE_SECONDS, remove_stack
from gym.runtime.sandbox_leftovers import remove_leftovers
from gym.wire.stack_names import UPSTREAM_FOLDER, WANTED_FILE

if TYPE_CHECKING:
    import docker

FINISH_BEFORE_DOWN: Final = 15.0  # for a Compose at work, which would go on creating what was just removed


def down(home: Path) -> bool:
    """True when there was anything."""
    folder = StackFolder(home.resolve())
    drain = float(folder.saved_plan().get("drain_seconds") or 0.0)
    with engine_alone() as client:
        return remove(client, folder, grace=GRACE_SECONDS + drain)


@contextmanager
def engine_alone() -> Iterator[docker.DockerClient]:
    """For what asks the engine alone: Compose's own start would cost as much as the question."""
    require_engine(compose=False)
    with connect(engine_host()) as client:
        yield client


def remove(client: docker.DockerClient, folder: StackFolder, *, grace: float, quiet: float = 0.0) -> bool:
    project = folder.saved_project()
    mark_down(folder.wanted)
    with suppress(InfraError, FileNotFoundError):  # down means gone, even where Compose hangs
        wait_for_compose(folder.compose_lock, project, FINISH_BEFORE_DOWN)
    removed = remove_stack(client, str(folder.home), project, grace=grace, quiet=quiet)
    remove_leftovers(folder.home)
    for kept in (folder.secrets, folder.home / UPSTREAM_FOLDER, folder.synced):  # a key may be in each
        shutil.rmtree(kept, ignore_errors=True)
    return removed


def mark_down(wanted: Path) -> None:
    """Nothing is wanted any more: the console and the broker stop keeping it."""
    path = wanted / WANTED_FILE
    if document := read_object(path):
        write_atomically(path, orjson.dumps(document | {"down": True}).decode(), mode=SHARED)
