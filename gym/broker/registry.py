"""What the broker knows of each sandbox, alive or removed: its owner, its expiry, and why it was removed."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from gym.broker.config import BrokerCaller
from gym.broker.errors import Lost, Unknown
from gym.broker.jobs import BrokerJob
from gym.broker.provider import Channel, ProviderSandbox, Tags
from gym.broker.shells import ShellSession
from gym.wire.failures import RolloutError
from gym.wire.sandbox import SandboxInfo, SandboxSpec, SandboxState

NEWS_SECONDS = 8.0  # the engine reports an end a little after it, and its cause last
REMEMBERED = 20_000  # removed sandboxes of which the broker still knows why


@dataclass(eq=False)
class SandboxEntry:
    """One sandbox that was handed out."""

    sandbox: ProviderSandbox
    tags: Tags  # its owner; the engine gets changes a moment later
    spec: SandboxSpec
    provider: str
    expires_at: float  # the loop's time at which its TTL is over
    created: float = field(default_factory=time.time)
    state: SandboxState = "running"
    sealed: bool = True
    why_lost: str = ""
    own_doing: bool = False  # it was lost by what ran in it
    jobs: dict[str, BrokerJob] = field(default_factory=dict)
    shells: dict[str, ShellSession] = field(default_factory=dict)
    reclaimed: bool = False  # it was lost, and its remains are removed or on their way
    removing: asyncio.Task[bool] | None = None
    retagging: asyncio.Task[None] | None = None  # writes the new owner to the engine
    loss_watch: asyncio.Task[None] | None = None  # done when it is known why it was lost

    @property
    def id(self) -> str:
        return self.tags.id

    @property
    def instance(self) -> str:
        return self.tags.instance

    @property
    def owner(self) -> tuple[str, str]:
        return self.tags.instance, self.tags.owner

    @property
    def lane(self) -> str:
        return self.tags.rollout or self.id

    async def channel_for(self, user: str | None = None) -> Channel:
        """The open channel, of another user where asked. Raises with the reason where the sandbox cannot answer."""
        if self.state == "lost":
            raise self.loss
        return self.sandbox.channel if user is None else await self.sandbox.channel_as(user)

    async def explain(self, error: RolloutError) -> RolloutError:
        """The error of a channel that broke, replaced by why the sandbox was lost, once that is known."""
        if self.loss_watch is None or not self.sandbox.channel.closed:
            return error
        await asyncio.wait({self.loss_watch}, timeout=NEWS_SECONDS)
        return self.loss if self.state == "lost" else error

    @property
    def loss(self) -> Lost:
        return Lost(f"sandbox {self.id} is lost: {self.why_lost}", own_doing=self.own_doing)

    def info(self) -> SandboxInfo:
        tags, network = self.tags, self.spec.network
        now = network.setup.access if network.setup is not None and not self.sealed else network.access
        return SandboxInfo(
            id=tags.id,
            state=self.state,
            image=self.spec.image or "(built)",
            instance=tags.instance,
            rollout=tags.rollout,
            stack=tags.stack,
            provider=self.provider,
            network=now,
            sealed=self.sealed,
            created=self.created,
            expires=tags.expires,
            labels=self.spec.labels,
            parent=tags.parent or None,
            why_lost=self.why_lost,
            own_doing=self.own_doing,
        )


class RemovedSandbox(NamedTuple):
    instance: str
    why: str
    own_doing: bool = False


class SandboxRegistry:
    """All of one stack."""

    def __init__(self) -> None:
        self._alive: dict[str, SandboxEntry] = {}
        self._counts: Counter[str] = Counter()  # of the alive that are not lost, by instance
        self._gone: OrderedDict[str, RemovedSandbox] = OrderedDict()
        self._making: dict[str, int] = {}
        self._requested: dict[str, str] = {}  # ids of requests that were given a ready sandbox, which had an id already

    def __iter__(self) -> Iterator[SandboxEntry]:
        return iter(tuple(self._alive.values()))

    def __len__(self) -> int:
        return len(self._alive)

    def add(self, entry: SandboxEntry) -> None:
        if (before := self._alive.get(entry.id)) is not None:
            self._counts[before.instance] -= before.state != "lost"
        self._alive[entry.id] = entry
        if entry.tags.request:
            self._requested[entry.tags.request] = entry.id
        self._counts[entry.instance] += entry.state != "lost"

    def lose(self, entry: SandboxEntry) -> None:
        """It cannot answer any more, and takes no place of its instance; it can be found, to say why."""
        self._counts[entry.instance] -= self._alive.get(entry.id) is entry and entry.state != "lost"
        entry.state = "lost"

    def find(self, sandbox_id: str, caller: BrokerCaller) -> SandboxEntry:
        entry = self._alive.get(sandbox_id)
        if entry is not None and caller.may_see(entry.instance):
            return entry
        gone = self._gone.get(sandbox_id)
        if gone is not None and caller.may_see(gone.instance):
            raise Lost(f"sandbox {sandbox_id} is gone: {gone.why}", own_doing=gone.own_doing)
        raise Unknown(f"no sandbox {sandbox_id[:80]!r}")

    def find_shared(self, named: str, caller: BrokerCaller) -> SandboxEntry:
        """The caller's own by its ID, or another instance's by ID~KEY: to run commands and move files, no more."""
        sandbox_id, _, key = named.partition("~")
        if not key:
            return self.find(sandbox_id, caller)
        entry, gone = self._alive.get(sandbox_id), self._gone.get(sandbox_id)
        if entry is not None and caller.may_visit(entry.instance, sandbox_id, key):
            return entry
        if gone is not None and caller.may_visit(gone.instance, sandbox_id, key):
            raise Lost(f"sandbox {sandbox_id} is gone: {gone.why}", own_doing=gone.own_doing)
        raise Unknown(f"no sandbox {sandbox_id[:80]!r} that this key opens")

    def made_for(self, request_id: str, caller: BrokerCaller) -> SandboxEntry | None:
        """What a request by its id of `id_of_request` was given, by this broker or by one before it."""
        entry = self._alive.get(self._requested.get(request_id, request_id))
        return entry if entry is not None and caller.may_see(entry.instance) else None

    def forget(self, entry: SandboxEntry, why: str) -> None:
        """It cannot be found from here on; removing it may take a while longer."""
        if (popped := self._alive.pop(entry.id, None)) is None:
            return
        self._requested.pop(popped.tags.request, None)
        self._counts[popped.instance] -= popped.state != "lost"
        self._gone[entry.id] = RemovedSandbox(entry.instance, why, entry.own_doing)
        while len(self._gone) > REMEMBERED:
            self._gone.popitem(last=False)

    def count(self, instance: str) -> int:
        """Those being made count too: else a burst would pass the limit."""
        return self._making.get(instance, 0) + self._counts[instance]

    def reserve(self, instance: str) -> None:
        self._making[instance] = self._making.get(instance, 0) + 1

    def release(self, instance: str) -> None:
        self._making[instance] -= 1


def new_id() -> str:
    return f"sb{secrets.token_hex(7)}"


def id_of_request(instance: str, request_id: str) -> str:
    """The same request makes the same sandbox, even when the broker was restarted in between."""
    return "sb" + hashlib.sha256(f"{instance}\0{request_id}".encode()).hexdigest()[:14]
