"""Start, loops and stop of the broker: adopts or removes what an earlier one left, enforces leases and TTLs."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, cast

from gym.broker.jobs import adopt_jobs
from gym.broker.provider import ProviderSandbox, Tags
from gym.broker.registry import SandboxEntry
from gym.broker.service import Broker
from gym.wire.sandbox import OPERATOR, Grant, SandboxSpec

log = logging.getLogger("gym.broker")
ADOPT_SECONDS = 15.0
AT_ONCE = 16
LOST_KEPT_SECONDS = 600.0


async def start(broker: Broker) -> None:
    """Ready when this returns: every sandbox of the stack is adopted or being removed."""
    await broker.provider.open()
    await adopt(broker)
    loops = {"reaper": reap(broker), "ping": ping(broker), "disk": collect_garbage(broker)}
    loops["warm"] = broker.warm.run(broker.tasks.spawn)
    loops |= {name: make() for name, make in broker.background.items()}
    for name, work in loops.items():
        broker.tasks.spawn(work, name)
    for name, access in broker.config.instances.items():
        for image in access.grant.prefetch:
            broker.tasks.spawn(prefetch(broker, image, access.grant), f"prefetch {image} for {name}")
    broker.ready = True


async def stop(broker: Broker) -> None:
    """Removes all sandboxes of the stack, unless the next broker takes them over. Idempotent."""
    if broker.stopping:
        return
    broker.stopping = True
    warm = broker.warm.drain()
    if not broker.hand_over:
        for entry in broker.registry:
            broker.remove(entry, "the broker was stopped")
    for sandbox in warm:
        broker.removals.begin(sandbox, "the broker was stopped")


async def close(broker: Broker) -> None:
    """After `stop`: waits for what is being removed, sweeps, and lets go of the provider."""
    await stop(broker)
    clean = await broker.removals.settled(broker.config.settings.stop_seconds)
    keep = frozenset(entry.id for entry in broker.registry) if broker.hand_over else frozenset[str]()
    if retagging := [entry.retagging for entry in broker.registry if entry.retagging is not None]:
        await asyncio.wait(retagging, timeout=10.0)
    try:
        async with asyncio.timeout(10.0):
            await broker.provider.sweep(broker.config.stack, keep)
    except Exception as error:  # noqa: BLE001 (the end of the process does not wait for an engine that is gone)
        log.error("what is left of the stack %s could not be swept: %s", broker.config.stack, error)
    if not clean:
        log.error("not everything could be removed in time: %s", broker.removals.status())
    await broker.tasks.aclose()
    await broker.provider.close()
    broker.audit.close()


async def adopt(broker: Broker) -> None:
    """Sandboxes with an owner stay for one lease, those without one for their TTL; the others are removed."""
    keep: set[str] = set()
    gate = asyncio.Semaphore(AT_ONCE)
    async with asyncio.TaskGroup() as group:
        async for tags, take in broker.provider.found(broker.config.stack):
            if is_wanted(broker, tags):
                keep.add(tags.id)
                group.create_task(adopt_one(broker, tags, take, gate, keep))
    swept = await broker.provider.sweep(broker.config.stack, frozenset(keep))
    if keep or swept:
        log.warning("an earlier broker left sandboxes: %d kept, %d removed", len(keep), swept)
        broker.audit.note("adopt", kept=len(keep), removed=swept)


def is_wanted(broker: Broker, tags: Tags) -> bool:
    known = tags.instance in broker.config.instances or tags.instance == OPERATOR
    return known and not tags.warm and tags.expires > time.time()


async def adopt_one(
    broker: Broker, tags: Tags, take: Callable[[], object], gate: asyncio.Semaphore, keep: set[str]
) -> None:
    try:
        async with gate, asyncio.timeout(ADOPT_SECONDS):
            sandbox = await cast(Any, take())
    except Exception as error:  # noqa: BLE001 (one that cannot be reached is of no use)
        keep.discard(tags.id)
        log.warning("sandbox %s could not be adopted and is removed: %s", tags.id, error)
        return
    admit_adopted(broker, sandbox)


def admit_adopted(broker: Broker, sandbox: ProviderSandbox) -> SandboxEntry:
    spec: SandboxSpec = sandbox.spec
    expires_at = asyncio.get_running_loop().time() + sandbox.tags.expires - time.time()
    entry = SandboxEntry(
        sandbox, sandbox.tags, spec, broker.provider.name, expires_at, sealed=spec.network.setup is None
    )
    adopt_jobs(entry, sandbox.channel)
    broker.registry.add(entry)
    broker.leases.renew(entry.owner)
    broker.watch(entry)
    return entry


async def reap(broker: Broker) -> None:
    """Removes what expired or lost its owner. When this process itself was paused, leases are extended by the pause."""
    loop = asyncio.get_running_loop()
    settings = broker.config.settings
    expected = loop.time() + settings.reap_seconds
    while True:
        await asyncio.sleep(settings.reap_seconds)
        late = loop.time() - expected
        if late > settings.lease_seconds / 4:
            broker.leases.extend_all(late)
        expected = loop.time() + settings.reap_seconds
        for entry in broker.registry:
            look_after(broker, entry, loop.time())
        broker.leases.sweep({entry.owner for entry in broker.registry})


def look_after(broker: Broker, entry: SandboxEntry, now: float) -> None:
    why = f"it was lost: {entry.why_lost}"
    if entry.state == "lost" and not entry.reclaimed:
        entry.reclaimed = True  # it is removed at once; its entry stays for a while, the reason for longer
        entry.expires_at = min(entry.expires_at, now + LOST_KEPT_SECONDS)
        broker.removals.begin(entry.sandbox, why)
    elif entry.reclaimed and (now >= entry.expires_at or broker.leases.is_over(entry.owner)):
        broker.registry.forget(entry, why)
    elif now >= entry.expires_at:
        broker.remove(entry, "its time was over")
    elif broker.leases.is_over(entry.owner):
        silent = broker.config.settings.lease_seconds
        broker.remove(entry, f"its owner {entry.tags.owner} was silent for {silent:g} s")


async def ping(broker: Broker) -> None:
    """Opens the breaker when the engine stops answering, before a rollout fails; closes it when it answers."""
    while True:
        try:
            async with asyncio.timeout(10.0):
                broker.engine_seconds = await broker.provider.ping()
        except Exception as error:  # noqa: BLE001 (no answer, in whatever form)
            broker.breaker.failed(f"it does not answer: {str(error) or type(error).__name__}")
        else:
            if broker.breaker.state == "half-open":
                broker.breaker.succeeded()
        await asyncio.sleep(broker.config.settings.ping_seconds)


async def collect_garbage(broker: Broker) -> None:
    settings = broker.config.settings
    while True:
        await asyncio.sleep(settings.gc_seconds)
        try:
            freed = await broker.provider.collect_garbage(settings.disk_low, settings.disk_high)
        except Exception as error:  # noqa: BLE001 (retried in a minute)
            log.warning("old images could not be removed: %s", error)
            continue
        if freed:
            broker.images.forget()
            broker.audit.note("collect_garbage", bytes=freed)


async def prefetch(broker: Broker, image: str, grant: Grant) -> None:
    try:
        await broker.images.need(broker.policy(SandboxSpec(image=image), grant), float("inf"))
    except Exception as error:  # noqa: BLE001 (re-raised for the request that needs the image)
        log.warning("the image %s could not be fetched ahead: %s", image, error)
        broker.audit.note("prefetch", image=image, outcome="failed", why=str(error))
    else:
        broker.audit.note("prefetch", image=image)
