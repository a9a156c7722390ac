"""Waits until what is wanted is healthy and routed, or a server is late or ends at each start."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from gym.plan.model import Plan
from gym.render.launch_document import Address
from gym.render.traefik import route_prefix
from gym.runtime.lateness import ends_at_each_start, not_in_time, start_seconds
from gym.runtime.local.probe import probe
from gym.runtime.local.replica_process import ReplicaProcess

ROUTED_WITHIN_SECONDS = 3.0  # the router reads a changed file after 0.1 s

log = logging.getLogger("gym.supervisor")


@dataclass(frozen=True)
class StartDeadline:
    """How long a change may take, from now on."""

    seconds: float
    at: float  # by time.monotonic()

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self.at


def deadline_for(plan: Plan, timeout: float | None) -> StartDeadline:
    """What was asked for, else by how many share the cores."""
    seconds = timeout or start_seconds(sum(one.replicas for one in plan.services), _cores())
    return StartDeadline(seconds, time.monotonic() + seconds)


async def wait_healthy(
    wanted: Sequence[ReplicaProcess],
    everyone: Sequence[ReplicaProcess],
    deadline: StartDeadline,
    next_change: Callable[[float], Awaitable[None]],
    stack: str,
) -> None:
    """`NotUp` at once for one that ends at each start; at the deadline for a server that is late."""
    while unhealthy := [process for process in wanted if process.state != "healthy"]:
        gave_up = any(process.gave_up for process in unhealthy)
        if gave_up or deadline.passed:
            late = [process.late() for process in everyone if process.state != "healthy"]
            if gave_up:
                raise ends_at_each_start(late, healthy=len(everyone) - len(late), stack=stack)
            raise not_in_time(late, total=len(everyone), timeout=deadline.seconds, stack=stack)
        await next_change(min(0.5, max(0.0, deadline.at - time.monotonic())))


async def settles(
    process: ReplicaProcess, deadline: StartDeadline, next_change: Callable[[float], Awaitable[None]]
) -> bool:
    """True once it is healthy; False when it ends at each start, or is late."""
    while process.state != "healthy":
        if process.gave_up or deadline.passed:
            return False
        await next_change(0.5)
    return True


async def wait_routed(plan: Plan, router: Address, token: str) -> None:
    """Health is published at once, but the router reads it a little later: `up` means that requests arrive."""
    deadline = time.monotonic() + ROUTED_WITHIN_SECONDS
    waiting = [route_prefix(one) for one in plan.services if one.replicas]
    address = (router[0], int(router[1]))

    async def misses(route: str) -> str:
        return await probe(address, f"{route}/healthz", wrong=frozenset({503}), timeout=1.0, token=token)

    while (waiting := [one for one in waiting if await misses(one)]) and time.monotonic() < deadline:
        await asyncio.sleep(0.03)
    if waiting:
        log.warning("the router does not yet route %s", ", ".join(waiting))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
