"""Watches the engine: containers that end by themselves, and layers that grow past their limit.

No storage driver here limits a layer, so growth is looked for where it can be: the disk's free space is read often, for
that is cheap, and layers are measured when it fell or when a while has passed.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Collection, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Final

from gym import labels
from gym.broker.providers.docker.docker_sandbox import DockerSandbox
from gym.broker.providers.docker.engine_client import EngineClient
from gym.errors import GymError, InfraError

log = logging.getLogger("gym.broker")

AGAIN: Final = 1.0  # after the engine hung up
LOOK_EVERY: Final = 1.0
AT_LEAST: Final = 60.0  # between two measurements of everything when nothing hints at growth
WITHOUT_SIGNAL: Final = 10.0  # the same, where nothing could hint at it
RESTS: Final = 4.0  # times as long as it measured: many sandboxes must not keep the engine busy
GROWTH: Final = 64 << 20  # so much less free space calls for a look
RESERVE: Final = 0.03  # of the disk: below it the largest goes, whatever its limit says


async def watch_events(engine: EngineClient, alive: Mapping[str, DockerSandbox]) -> None:
    """Runs until cancelled: passes each sandbox the events of its container."""
    query = {"filters": f'{{"type":["container"],"event":["die","oom","kill"],"label":["{labels.SANDBOX}"]}}'}
    while True:
        try:
            async with aclosing(engine.lines("GET", "/events", query, doing="tell what happens")) as events:
                async for event in events:
                    actor = event.get("Actor") or {}
                    if (sandbox := alive.get(str(actor.get("ID")))) is not None:
                        sandbox.note(str(event.get("Action")), actor.get("Attributes") or {})
        except (InfraError, ValueError) as error:
            log.debug("the engine's events stopped: %s", error)
        await asyncio.sleep(AGAIN)


async def watch_disks(root: Path | None, alive: Mapping[str, DockerSandbox]) -> None:
    """Runs until cancelled: ends sandboxes that take more disk than their limit. `root` lies on the engine's disk."""
    loop = asyncio.get_running_loop()
    room, looked, rest = FreeSpace(free_bytes(root)), loop.time(), LOOK_EVERY
    while True:
        await asyncio.sleep(rest)
        began, short, rest = loop.time(), is_short(root), LOOK_EVERY
        fell = room.fell_to(free_bytes(root))
        due = began - looked > (WITHOUT_SIGNAL if root is None else AT_LEAST)
        if alive and (fell or short or due):
            await look_once(tuple(alive.values()), short=short)
            room, looked = FreeSpace(free_bytes(root)), loop.time()
            rest = max(LOOK_EVERY, RESTS * (looked - began))


class FreeSpace:
    """The largest free space of a disk since the last measurement, so that freed space does not hide later growth."""

    def __init__(self, free: int | None) -> None:
        self._max_free = free

    def fell_to(self, free: int | None) -> bool:
        """True when it fell by more than GROWTH."""
        if free is None or self._max_free is None:
            return False
        self._max_free = max(self._max_free, free)
        return self._max_free - free > GROWTH


async def look_once(sandboxes: Collection[DockerSandbox], *, short: bool) -> None:
    sizes: list[tuple[int, DockerSandbox]] = []
    volumes: dict[str, int] = {}
    for sandbox in sandboxes:
        limit = sandbox.spec.limits.disk
        if (limit is None and not short) or sandbox.killed_for:
            continue
        try:
            size = await sandbox.measure(volumes)
            if limit is not None and size > limit:
                await sandbox.kill_for(f"its files took {size} bytes; `limits.disk` is {limit}")
            else:
                sizes.append((size, sandbox))
        except GymError as error:
            log.debug("%s was not measured: %s", sandbox.tags.id, error)
    if short and sizes:
        size, largest = max(sizes, key=lambda one: one[0])
        if size > GROWTH:
            why = f"the engine's disk ran full and this sandbox held the most of it, {size} bytes"
            await _end(largest, why)


async def _end(sandbox: DockerSandbox, why: str) -> None:
    try:
        await sandbox.kill_for(why, own_doing=False)
    except GymError as error:
        log.warning("%s could not be ended: %s", sandbox.tags.id, error)


def disk_seen(engine_root: str) -> Path | None:
    """A path on the engine's disk: its own folder, or our root where we are a container of this engine."""
    own = Path(engine_root)
    if own.is_dir():
        return own
    return Path("/") if Path("/.dockerenv").exists() else None


def free_bytes(root: Path | None) -> int | None:
    if root is None:
        return None
    found = os.statvfs(root)
    return found.f_bavail * found.f_frsize


def used_share(root: Path) -> tuple[float, int]:
    """(used part of what may be used, all of that in bytes)."""
    found = os.statvfs(root)
    used = found.f_blocks - found.f_bfree
    whole = used + found.f_bavail
    return used / max(1, whole), whole * found.f_frsize


def is_short(root: Path | None) -> bool:
    return root is not None and used_share(root)[0] > 1 - RESERVE
