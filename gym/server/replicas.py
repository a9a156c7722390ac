"""The other instances of a stack, their replicas and which of them is least busy. Read from the discovery document."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from gym.http.pool import HttpClient
from gym.http.replica_choice import avoid, choose_replica
from gym.server.call_counts import Asked
from gym.server.peer_token import peer_headers
from gym.wire.discovery import Discovery
from gym.wire.failures import FailureKind, RolloutError

LOOK_SECONDS = 0.5  # how often a document on disk is looked at again (one stat)
ASK_SECONDS = 5.0  # how often one behind a URL is


@dataclass(slots=True, eq=False)
class Replica:
    url: str
    healthy: bool = True
    bound: int = 0  # rollouts of this process that live on it
    vanished: bool = False
    avoided_until: float = 0.0
    sdk: bool = True  # as far as is known

    @property
    def load(self) -> tuple[int, ...]:
        return (self.bound,)


class Peers:
    """One per process. Without a discovery document it knows the addresses of the configuration only."""

    def __init__(self, source: str, known: Mapping[str, str], http: HttpClient) -> None:
        self._url = source if source.startswith(("http://", "https://")) else ""
        self._path = Path(source.removeprefix("file://")) if source and not self._url else None
        self._http = http
        self._instances = {name: [Replica(url)] for name, url in known.items()}
        self._greeting = peer_headers(os.environ)
        self.asked = Asked()
        self.shared: set[str] = set()  # instances of which every replica serves every session
        self.seedless: set[str] = set()  # instances whose /seed_session does nothing, as their last replies said
        self._stamp = 0
        self._looked = 0.0  # when the last look began that has ended
        self._asking = asyncio.Lock()

    async def pick(self, instance: str, kind: FailureKind) -> Replica:
        """The healthy replica with the fewest rollouts of ours."""
        await self._look()
        replicas = self._instances.get(instance, [])
        if len(replicas) == 1:
            return replicas[0]
        if not replicas:
            raise RolloutError(kind, f"the stack has no running {instance!r}", server=instance, retryable=True)
        return choose_replica(replicas, self._http)

    async def replicas(self, instance: str) -> list[Replica]:
        """All that are listed, healthy or not."""
        await self._look()
        return self._instances.get(instance, [])

    async def refused(self, instance: str, replica: Replica) -> bool:
        """A connection to it failed: look again who is there. True when the replica is still listed."""
        avoid(replica)
        self.seedless.discard(instance)  # what comes back may be another server
        await self._look(force=True)
        return replica in self._instances.get(instance, [])

    async def _look(self, *, force: bool = False) -> None:
        asked = time.monotonic()
        if self._url:
            await self._look_behind_url(asked, force)
        elif self._path and (force or not self._looked or asked - self._looked >= LOOK_SECONDS):
            self._looked = asked
            self._take(self._read_path())

    async def _look_behind_url(self, asked: float, force: bool) -> None:
        """Before the first answer every caller waits for it; later ones go on with what is known."""
        if not force and self._looked and (asked - self._looked < ASK_SECONDS or self._asking.locked()):
            return
        async with self._asking:
            if self._looked >= asked or (self._looked and not force and asked - self._looked < ASK_SECONDS):
                return  # another caller has asked meanwhile
            began = time.monotonic()
            self._take(await self._read_url())
            self._looked = began

    def _read_path(self) -> bytes:
        assert self._path is not None
        try:
            stamp = os.stat(self._path).st_mtime_ns  # noqa: PTH116 (on the hot path: no object for it)
            if stamp == self._stamp:
                return b""
            self._stamp = stamp
            return self._path.read_bytes()
        except OSError:
            return b""  # not written yet: what the configuration says still holds

    async def _read_url(self) -> bytes:
        try:
            reply = await self._http.request("GET", self._url, timeout=5.0)
        except (OSError, TimeoutError):
            return b""
        return reply.body if reply.status == 200 else b""

    def _take(self, text: bytes) -> None:
        if not text:
            return
        try:
            document = Discovery.model_validate_json(text)
        except ValidationError:
            return
        for name, view in document.instances.items():
            old = {replica.url: replica for replica in self._instances.get(name, ())}
            replicas = []
            for one in view.replicas:
                replica = old.get(one.url) or Replica(one.url)
                replica.healthy, replica.sdk = one.healthy, view.sdk
                if self._greeting:
                    self._http.greet(one.url, self._greeting)
                if view.sdk:
                    self._http.expect_health(one.url)
                replicas.append(replica)
            if replicas:
                self._instances[name] = replicas
