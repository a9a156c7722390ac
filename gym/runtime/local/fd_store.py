"""The supervisor's side of its warden: what is kept there outlives the supervisor, and comes back to the next one."""

from __future__ import annotations

import logging
import os
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Final

import orjson
from pydantic import ValidationError

from gym.runtime.local.stack_order import StackOrder
from gym.runtime.local.warden import KEPT, ORDER, STORE

SOCKET: Final = "socket."
SLOW_SECONDS: Final = 1.0

log = logging.getLogger("gym.supervisor")


@dataclass
class FdStore:
    """`connection` is None for a supervisor without a warden: then nothing is kept, and its servers end with it."""

    connection: socket.socket | None = None
    kept: Mapping[str, int] = field(default_factory=dict)  # what an earlier supervisor has left
    held: dict[str, int] = field(default_factory=dict)  # duplicates of what the warden keeps, for another warden
    lost: bool = False  # the warden was killed

    @property
    def is_kept(self) -> bool:
        return self.connection is not None

    def keep_socket(self, name: str, listener: socket.socket) -> None:
        self._send({"keep": f"{SOCKET}{name}"}, listener.fileno())

    def drop_socket(self, name: str) -> None:
        self._send({"drop": f"{SOCKET}{name}"})

    def keep_control(self, listener: socket.socket) -> None:
        self._send({"keep": "control"}, listener.fileno())

    def keep_order(self, order: StackOrder) -> None:
        """Values of secrets are in it: a file without a name, in memory where the system has such."""
        with _nameless(order.model_dump_json().encode()) as file:
            self._send({"keep": ORDER}, file.fileno())

    def beat(self) -> None:
        self._send({})

    def left_order(self) -> StackOrder | None:
        descriptor = self.kept.get(ORDER)
        if descriptor is None:
            return None
        with os.fdopen(os.dup(descriptor), "rb") as file:
            file.seek(0)
            try:
                return StackOrder.model_validate_json(file.read())
            except ValidationError as error:
                log.error("what an earlier supervisor has left is not understood: %s", error)
                return None

    def left_sockets(self) -> dict[str, socket.socket]:
        found = {name.removeprefix(SOCKET): one for name, one in self.kept.items() if name.startswith(SOCKET)}
        return {name: _reopened(descriptor) for name, descriptor in found.items()}

    def _hold(self, message: Mapping[str, str], *descriptors: int) -> None:
        for name in (message.get("keep"), message.get("drop")):
            if name in self.held:
                os.close(self.held.pop(name))
        if "keep" in message:
            self.held[message["keep"]] = os.dup(descriptors[0])

    def _send(self, message: Mapping[str, str], *descriptors: int) -> None:
        if self.connection is None and not self.lost:
            return
        self._hold(message, *descriptors)
        if self.connection is None:
            return
        try:
            socket.send_fds(self.connection, [orjson.dumps(message)], list(descriptors))
        except OSError as error:
            log.error("the warden is gone: %s", error)
            self.connection.close()
            self.connection, self.lost = None, True


def open_store(arguments: list[str]) -> FdStore:
    """From what the warden put behind the supervisor's own arguments; an empty one where there is no warden."""
    if STORE not in arguments:
        return FdStore()
    connection = socket.socket(fileno=int(arguments[arguments.index(STORE) + 1]))
    connection.settimeout(SLOW_SECONDS)
    pairs = (one.rpartition(":") for one in arguments[arguments.index(KEPT) + 1].split(",") if one)
    kept = {name: int(descriptor) for name, _, descriptor in pairs}
    for descriptor in (connection.fileno(), *kept.values()):
        os.set_inheritable(descriptor, False)
    return FdStore(connection, kept, {name: os.dup(descriptor) for name, descriptor in kept.items()})


def _reopened(descriptor: int) -> socket.socket:
    return socket.socket(fileno=descriptor)


def _nameless(content: bytes) -> IO[bytes]:
    in_memory = hasattr(os, "memfd_create")
    file = os.fdopen(os.memfd_create("gym-order"), "w+b") if in_memory else tempfile.TemporaryFile()  # noqa: SIM115
    file.write(content)
    file.flush()
    return file
