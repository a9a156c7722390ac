"""What a process is to its stack: whose replica, how its health is asked for, and the instances that live in it."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from gym.runtime.local.child_process import ProcessSpec
from gym.runtime.local.probe import ONLY_OK

HealthCheck = Callable[[ProcessSpec, tuple[str, int], float], Awaitable[str]]  # within seconds: "", or why it is not


@dataclass(frozen=True)
class ReplicaRole:
    """What a process is to the stack."""

    instance: str
    replica: str
    type: str
    implementation: str
    health_path: str = "/healthz"
    wrong: frozenset[int] = ONLY_OK  # statuses that mean it is not healthy
    binds: bool = False  # it is not a server of ours: it is given its port
    check: HealthCheck | None = None  # instead of a GET


@dataclass(frozen=True)
class Seat:
    """One instance in a process."""

    role: ReplicaRole
    listener: socket.socket
    address: tuple[str, int]
