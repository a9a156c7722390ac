"""The broker's life: what an earlier one left is adopted or removed, leases and TTLs are kept, nothing stays behind."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, cast

from gym.broker.jobs import adopt_jobs
from gym.broker.provider import Held, Tags
from gym.broker.registry import Box
from gym.broker.service import Broker
from gym.wire.sandbox import OPERATOR, Grant, SandboxSpec

log = logging.getLogger("gym.broker")
ADOPT_SECONDS = 15.0
AT_ONCE = 16
LOST_KEPT_SECONDS = 600.0


async def start(broker: Broker) -> None:
    """Ready when this returns: everything of the stack that exists is known, or on its way out."""
    await broker.provider.open()
    await adopt(broker)
    loops = {"reaper": reap(broker), "ping": ping(broker), "disk": collect_garbage(broker)}
    loops["warm"] = broker.warm.run(broker.tasks.spawn)
    loops |= {name: make() for name, make in broker.beside.items()}
    for name, work in loops.items():
        broker.tasks.spawn(work, name)
    for name, access in broker.config.instances.items():
        for image in access.grant.prefetch:
            broker.tasks.spawn(prefetch(broker, image, access.grant), f"prefetch {image} for {name}")
    broker.ready = True


async def stop(broker: Broker) -> None:
    """Everything of the stack goes, unless the next broker is to have it. Idempotent."""
    if broker.stopping:
        return
    broker.stopping = True
    warm = broker.warm.drain()
    if not broker.hand_over:
        for box in broker.boxes:
            broker.remove(box, "the broker was stopped")
    for held in warm:
        broker.removals.begin(held, "the broker was stopped")


async def close(broker: Broker) -> None:
    """After `stop`: waits for what is being removed, sweeps, and lets go of the provider."""
    await stop(broker)
    clean = await broker.removals.settled(broker.config.settings.stop_seconds)
    keep = frozenset(box.id for box in broker.boxes) if broker.hand_over else frozenset[str]()
    if telling := [box.telling for box in broker.boxes if box.telling is not None]:
        await asyncio.wait(telling, timeout=10.0)
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
    """Those whose owner may still come stay for one lease, those that nobody owns for their TTL; the others go."""
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
            held = await cast(Any, take())
    except Exception as error:  # noqa: BLE001 (one that cannot be reached is of no use to anybody)
        keep.discard(tags.id)
        log.warning("sandbox %s could not be adopted and is removed: %s", tags.id, error)
        return
    admit_adopted(broker, held)


def admit_adopted(broker: Broker, held: Held) -> Box:
    spec: SandboxSpec = held.spec
    ends = asyncio.get_running_loop().time() + held.tags.expires - time.time()
    box = Box(held, held.tags, spec, broker.provider.name, ends, sealed=spec.network.setup is None)
    adopt_jobs(box, held.channel)
    broker.boxes.add(box)
    broker.leases.beat(box.owner)
    broker.watch(box)
    return box


async def reap(broker: Broker) -> None:
    """What expired, what lost its owner. A pause of this very process is not held against anybody."""
    loop = asyncio.get_running_loop()
    knobs = broker.config.settings
    expected = loop.time() + knobs.reap_seconds
    while True:
        await asyncio.sleep(knobs.reap_seconds)
        late = loop.time() - expected
        if late > knobs.lease_seconds / 4:
            broker.leases.forgive(late)
        expected = loop.time() + knobs.reap_seconds
        for box in broker.boxes:
            look_after(broker, box, loop.time())
        broker.leases.sweep({box.owner for box in broker.boxes})


def look_after(broker: Broker, box: Box, now: float) -> None:
    why = f"it was lost: {box.why_lost}"
    if box.state == "lost" and not box.reclaimed:
        box.reclaimed = True  # its remains go at once; what it was can be asked for a while, why it went for longer
        box.ends = min(box.ends, now + LOST_KEPT_SECONDS)
        broker.removals.begin(box.held, why)
    elif box.reclaimed and (now >= box.ends or broker.leases.is_over(box.owner)):
        broker.boxes.forget(box, why)
    elif now >= box.ends:
        broker.remove(box, "its time was over")
    elif broker.leases.is_over(box.owner):
        silent = broker.config.settings.lease_seconds
        broker.remove(box, f"its owner {box.tags.owner} was silent for {silent:g} s")


async def ping(broker: Broker) -> None:
    """An engine that stops answering opens the breaker before a rollout finds out; one that answers again closes it."""
    while True:
        try:
            async with asyncio.timeout(10.0):
                broker.engine_seconds = await broker.provider.ping()
        except Exception as error:  # noqa: BLE001 (no answer, in whatever form)
            broker.breaker.failed(f"it does not answer: {error or type(error).__name__}")
        else:
            if broker.breaker.state == "half-open":
                broker.breaker.succeeded()
        await asyncio.sleep(broker.config.settings.ping_seconds)


async def collect_garbage(broker: Broker) -> None:
    knobs = broker.config.settings
    while True:
        await asyncio.sleep(knobs.gc_seconds)
        try:
            freed = await broker.provider.collect_garbage(knobs.disk_low, knobs.disk_high)
        except Exception as error:  # noqa: BLE001 (tried again in a minute)
            log.warning("old images could not be removed: %s", error)
            continue
        if freed:
            broker.images.forget()
            broker.audit.note("collect_garbage", bytes=freed)


async def prefetch(broker: Broker, image: str, grant: Grant) -> None:
    try:
        await broker.images.need(broker.policy(SandboxSpec(image=image), grant), float("inf"))
    except Exception as error:  # noqa: BLE001 (said again, to whoever asks for the image)
        log.warning("the image %s could not be fetched ahead: %s", image, error)
        broker.audit.note("prefetch", image=image, outcome="failed", why=str(error))
    else:
        broker.audit.note("prefetch", image=image)
