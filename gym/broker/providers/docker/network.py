"""Networks of sandboxes: none, bridges that lead to the internet and to nothing else of ours, or none and a gate.

A bridge is shared by the sandboxes of a stack: one network a sandbox would use up the engine's addresses.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections import Counter
from collections.abc import Collection
from typing import Final, NamedTuple

from gym import labels
from gym.broker.provider import Channel, EgressGate, EgressSettings, Tags
from gym.broker.providers.docker.engine_client import EngineClient, EngineRefused
from gym.broker.providers.docker.errors import BadSpec
from gym.wire.sandbox import Access, Network, phases_of, through_gate

ROLE: Final = "network"
BRIDGES: Final = "gym-sbx-"
BRIDGE_PORTS: Final = 500  # a kernel's bridge has 1,023
BRIDGE_OPTIONS: Final = {
    "com.docker.network.bridge.enable_icc": "false",  # sandboxes do not reach one another
    "com.docker.network.bridge.enable_ip_masquerade": "true",
}


class Attachment(NamedTuple):
    """How a sandbox is placed. `shards` are the shared bridges it takes a port of."""

    network: str  # NetworkMode of its creation
    env: tuple[str, ...] = ()
    dns: tuple[str, ...] = ()
    shards: tuple[str, ...] = ()
    gated: bool = False


class Networks:
    """Places sandboxes of one engine, and counts the ports of its bridges.

    What a bridge cannot keep out: services of this machine that listen on all of its addresses, and whatever the
    machine itself can reach (a cloud's metadata address too); `internet` is granted knowing that, `allow` is not so.
    """

    def __init__(self, engine: EngineClient, gate: EgressGate | None = None) -> None:
        self._engine = engine
        self._gate = gate
        self._taken: Counter[str] = Counter()
        self._known: set[str] = set()
        self._lock = asyncio.Lock()

    @property
    def accesses(self) -> tuple[Access, ...]:
        return ("none", "internet", "allow") if self._gate else ("none", "internet")

    async def attach(self, tags: Tags, wanted: Network) -> Attachment:
        """Through a gate nothing but the sandbox's own line is needed, so `allow` takes no port of any bridge."""
        phases = phases_of(wanted)
        gated = self._through_gate(tags, phases[0]) if through_gate(wanted) else None
        settings = gated or EgressSettings()
        if not any(phase.access == "internet" for phase in phases):
            return Attachment("none", settings.env, settings.dns, gated=gated is not None)
        try:
            shard = await self._shard(tags.stack)
        except BaseException:
            if self._gate and gated:
                await self._gate.detach(tags)
            raise
        return Attachment(shard, settings.env, settings.dns, (shard,), gated=gated is not None)

    async def open(self, tags: Tags, attachment: Attachment, channel: Channel) -> None:
        """The sandbox runs: what was allowed can be reached when this returns."""
        if attachment.gated and self._gate:
            await self._gate.open(tags, channel)

    async def seal(self, container: str, tags: Tags, attachment: Attachment, run: Network) -> Attachment:
        """The setup phase is over: what `run` may not have is taken away."""
        if attachment.gated and self._gate:
            await self._gate.seal(tags, run)
        if run.access != "internet":
            for shard in attachment.shards:
                await self._disconnect(shard, container)
            self._give_back(attachment)
            attachment = attachment._replace(shards=())
        return attachment

    async def detach(self, tags: Tags, attachment: Attachment) -> None:
        self._give_back(attachment)
        if attachment.gated and self._gate:
            await self._gate.detach(tags)

    async def adopt(self, tags: Tags, wanted: Network, networks: Collection[str], channel: Channel) -> Attachment:
        """Of a sandbox that an earlier broker placed. A caller that came through the gate has what its run may have."""
        shards = tuple(name for name in networks if name.startswith(BRIDGES))
        self._taken.update(shards)
        attachment = Attachment(next(iter(networks), "none"), shards=shards)
        if not through_gate(wanted) or self._gate is None:
            return attachment
        self._gate.attach(tags, wanted)
        if wanted.access != "none":
            await self._gate.open(tags, channel)
        return attachment._replace(gated=True)

    def forget(self) -> None:
        """A bridge that was known is not there any more."""
        self._known.clear()

    async def sweep(self, stack: str) -> int:
        """Bridges of this stack that nothing is connected to."""
        wanted = f'{{"label":["{labels.STACK}={stack}","{labels.SANDBOX}={ROLE}"]}}'
        removed = 0
        async with self._lock:
            for network in await self._engine.call("GET", "/networks", {"filters": wanted}, doing="list networks"):
                if self._taken[network["Name"]]:
                    continue
                with contextlib.suppress(EngineRefused):  # in use, or gone meanwhile
                    await self._engine.call("DELETE", f"/networks/{network['Id']}", doing="remove a network")
                    self._known.discard(network["Name"])
                    removed += 1
        return removed

    def _through_gate(self, tags: Tags, first: Network) -> EgressSettings:
        if self._gate is None:
            raise BadSpec(
                "This broker has no egress gate, so `network: {allow: [...]}` cannot be enforced; "
                "ask for `none`, or for `internet` where that is granted."
            )
        return self._gate.attach(tags, first)

    async def _shard(self, stack: str) -> str:
        async with self._lock:
            number = 0
            while self._taken[name := bridge_name(stack, number)] >= BRIDGE_PORTS:
                number += 1
            self._taken[name] += 1
            try:
                await self._ensure(name, stack)
            except BaseException:
                self._taken[name] -= 1
                raise
            return name

    async def _ensure(self, name: str, stack: str) -> None:
        if name in self._known:
            return
        body = {
            "Name": name,
            "Driver": "bridge",
            "CheckDuplicate": True,
            "EnableIPv6": False,
            "Attachable": False,
            "Options": BRIDGE_OPTIONS,
            "Labels": {labels.STACK: stack, labels.SANDBOX: ROLE},
        }
        try:
            await self._engine.call("POST", "/networks/create", json=body, doing="make a network for sandboxes")
        except EngineRefused as error:
            if error.status != 409:
                raise
        self._known.add(name)

    async def _disconnect(self, network: str, container: str) -> None:
        body = {"Container": container, "Force": True}
        try:
            await self._engine.call("POST", f"/networks/{network}/disconnect", json=body, doing="disconnect a sandbox")
        except EngineRefused as error:
            if "is not connected" not in error.words:
                raise

    def _give_back(self, attachment: Attachment) -> None:
        for shard in attachment.shards:
            self._taken[shard] = max(0, self._taken[shard] - 1)


def bridge_name(stack: str, number: int) -> str:
    digest = hashlib.sha256(stack.encode()).hexdigest()[:12]
    return f"{BRIDGES}{digest}-{number}"
