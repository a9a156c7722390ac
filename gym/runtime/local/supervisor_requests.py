"""What is asked of a local stack's supervisor: how it is, to change something, to end."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any, Final

from gym.errors import InfraError, UserError
from gym.runtime.identity import Identity, is_alive
from gym.runtime.local.control import ask
from gym.runtime.local.home import Home, one_command
from gym.runtime.local.launch import find_supervisor, supervisor_ended, wait_until_gone
from gym.runtime.local.pid_file import read_record
from gym.runtime.status import OnStatus, ReplicaStatus, StackStatus

SILENCE_SECONDS: Final = 15.0  # the supervisor says something every second while it works


def change(home: Path, on_status: OnStatus, verb: str, **content: Any) -> StackStatus:
    place = Home(home.resolve())
    connection = find_supervisor(place) if place.path.is_dir() else None
    if connection is None:
        raise UserError(f"the stack in {place.path} does not run.", "Start it: gym up NAMES")
    with one_command(place):
        return follow(place, connection, on_status, verb, **content)


def follow(home: Home, connection: socket.socket, on_status: OnStatus, verb: str, **content: Any) -> StackStatus:
    """Pass on what the supervisor reports, until it is done."""
    connection.settimeout(SILENCE_SECONDS)
    try:
        for reply in ask(connection, verb, **content):
            if "status" in reply:
                on_status(StackStatus.read(reply["status"]))
            if "done" in reply:
                status = StackStatus.read(reply["done"]["status"])
                on_status(status)
                return status
    except TimeoutError as error:
        raise InfraError(
            f"the supervisor of the stack in {home.path} has not answered for {SILENCE_SECONDS:g} s.",
            "End the stack: gym down",
        ) from error
    except OSError as error:
        raise supervisor_ended(home) from error
    raise supervisor_ended(home)


def stop(home: Home) -> bool:
    """Ask the supervisor to end it all; False when there is none, or when it no longer speaks and has to be ended."""
    connection = find_supervisor(home)
    if connection is None:
        return False
    connection.settimeout(SILENCE_SECONDS)
    try:
        for reply in ask(connection, "stop"):
            if "done" in reply:
                return wait_until_gone(Identity(**reply["done"]["supervisor"]))
    except OSError:
        return False
    return False


def look(home: Home) -> dict[str, Any] | None:
    connection = find_supervisor(home) if home.path.is_dir() else None
    if connection is None:
        return None
    connection.settimeout(SILENCE_SECONDS)
    try:
        seen: dict[str, Any] = next(ask(connection, "status"))["done"]
    except (OSError, StopIteration):
        return None
    return seen if seen["status"]["stack"] else None


def runs(home: Home) -> bool:
    connection = find_supervisor(home) if home.path.is_dir() else None
    if connection is None:
        return False
    connection.close()
    return True


def orphans(home: Home) -> StackStatus | None:
    """Processes that outlived a killed supervisor."""
    record = read_record(home)
    alive = [(name, one) for name, one in record.processes.items() if is_alive(one)] if record else []
    if record is None or not alive:
        return None
    detail = "its supervisor was killed: `gym up` with the same names replaces it, `gym down` ends it"
    replicas = tuple(
        ReplicaStatus(
            instance=name, replica=name, type="", implementation="", state="unhealthy", pid=one.pid, detail=detail
        )
        for name, one in alive
    )
    return StackStatus(stack=record.stack, runtime="local", router=record.router, replicas=replicas)
