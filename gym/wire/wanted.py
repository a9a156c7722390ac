"""The wanted state of a stack, on disk. Commands write it; the console and the broker read it, and it outlives them.

A command that takes replicas out of the routes keeps a beat: when the beat stops, its request no longer counts.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict

from gym.files import read_document
from gym.wire.server_types import ServerType
from gym.wire.stack_names import NETWORK, ROUTER, WANTED_FILE, replica_host, shared_port
from gym.wire.stack_notes import write_note

WORK: Final = "work.json"
LEASE_SECONDS: Final = 4.0  # a command whose beat is older than this is taken for dead
BEAT_SECONDS: Final = 1.0


class Read(BaseModel):
    """Written by one version of gym, read by another while a stack is upgraded: what is new to a reader is passed."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class WantedService(Read):
    name: str
    slug: str
    host: str  # in DNS: all replicas in containers of its own; with the project before and a number behind, one of them
    type: ServerType
    implementation: str
    launch: str
    digest: str = ""
    replicas: int = 1
    strict: bool = False
    image: str = ""  # digest of the packed image that it runs
    shared: str = ""  # slug of the container that its first replica shares with other instances'

    @property
    def own_replicas(self) -> int:
        """In containers of its own."""
        return self.replicas - bool(self.shared and self.replicas)


class SharedReplica(NamedTuple):
    """The place of a replica in a container that several instances share."""

    host: str
    port: int


class WantedRouter(Read):
    host: str
    port: int
    needs_token: bool = False


class Wanted(Read):
    stack: str
    project: str
    url: str  # of the router, as callers on this machine see it
    router: WantedRouter
    services: tuple[WantedService, ...] = ()
    sidecars: tuple[str, ...] = ()  # as their containers are labelled; nothing is routed to them
    aliased: bool = False  # the engine gives containers names of its own: a replica's is another name of one
    down: bool = False  # then nothing is: whatever still runs is on its way out

    @property
    def network(self) -> str:
        return f"{self.project}_{NETWORK}"

    @property
    def router_names(self) -> tuple[str, ...]:
        """By which servers of the stack ask it."""
        return (ROUTER, WANTED_FILE, replica_host(self.project, ROUTER, 1))

    def shared_replica(self, service: WantedService) -> SharedReplica | None:
        if not service.shared:
            return None
        return SharedReplica(replica_host(self.project, service.shared, 1), shared_port(service.name))

    def own_replica(self, service: WantedService, number: int) -> str:
        """The name of the container with that number."""
        return replica_host(self.project, service.slug, number)


class Work(Read):
    """What a command does at this moment."""

    beat: int = 0  # another number each second while it works; 0 when none works
    leaving: tuple[str, ...] = ()  # names of containers that get no new requests


def write_wanted(folder: Path, wanted: Wanted) -> bool:
    return write_note(folder / WANTED_FILE, wanted)


def write_work(folder: Path, work: Work) -> bool:
    return write_note(folder / WORK, work)


def read_wanted(folder: Path) -> Wanted | None:
    """None where it was never written, or cannot be read: then the reader changes nothing."""
    return read_document(Wanted, folder / WANTED_FILE)


def read_work(folder: Path) -> Work:
    return read_document(Work, folder / WORK) or Work()


class Beat:
    """Whether a command is at work: its beat changed recently by the reader's own clock, so clocks need not agree."""

    def __init__(self) -> None:
        self._beat = 0
        self._since = float("-inf")

    def hears(self, work: Work, now: float) -> bool:
        if work.beat != self._beat:
            self._beat, self._since = work.beat, now
        return bool(work.beat) and now - self._since < LEASE_SECONDS
