"""Until what is wanted is healthy and routed, or it is clear who is late, or who ends at each start."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from gym.plan.model import Plan
from gym.render.launch import Address
from gym.render.traefik import route_prefix
from gym.runtime.lateness import ends_at_each_start, not_in_time, start_seconds
from gym.runtime.local.keeper import Keeper
from gym.runtime.local.probe import probe

ROUTED_WITHIN_SECONDS = 3.0  # the router reads a changed file after 0.2 s

log = logging.getLogger("gym.supervisor")


@dataclass(frozen=True)
class Patience:
    """How long a change may take, from now on."""

    seconds: float
    ends: float

    @property
    def over(self) -> bool:
        return time.monotonic() >= self.ends


def patience_for(plan: Plan, timeout: float | None) -> Patience:
    """What was asked for, else by how many share the cores."""
    seconds = timeout or start_seconds(sum(one.replicas for one in plan.services), _cores())
    return Patience(seconds, time.monotonic() + seconds)


async def wait_healthy(
    wanted: Sequence[Keeper],
    everyone: Sequence[Keeper],
    patience: Patience,
    next_change: Callable[[float], Awaitable[None]],
    stack: str,
) -> None:
    """`NotUp` at once for one that ends at each start; at the deadline for a server that is late."""
    while ill := [keeper for keeper in wanted if keeper.state != "healthy"]:
        failed = next((keeper for keeper in ill if keeper.gave_up), None)
        if failed is not None:
            healthy = sum(keeper.state == "healthy" for keeper in everyone)
            waiting = len([keeper for keeper in everyone if keeper.state == "starting" and keeper is not failed])
            times = failed.early_exits
            raise ends_at_each_start(failed.late(), times=times, healthy=healthy, waiting=waiting, stack=stack)
        if patience.over:
            late = [keeper.late() for keeper in everyone if keeper.state != "healthy"]
            raise not_in_time(late, total=len(everyone), timeout=patience.seconds, stack=stack)
        await next_change(min(0.5, max(0.0, patience.ends - time.monotonic())))


async def settles(keeper: Keeper, patience: Patience, next_change: Callable[[float], Awaitable[None]]) -> bool:
    """True once it is healthy; False when it ends at each start, or is late."""
    while keeper.state != "healthy":
        if keeper.gave_up or patience.over:
            return False
        await next_change(0.5)
    return True


async def wait_routed(plan: Plan, router: Address, token: str) -> None:
    """Health is published at once, but the router reads it a little later: `up` means that requests arrive."""
    deadline = time.monotonic() + ROUTED_WITHIN_SECONDS
    waiting = [route_prefix(one) for one in plan.services if one.replicas]
    while waiting and time.monotonic() < deadline:
        address = (router[0], int(router[1]))
        why = await probe(address, f"{waiting[0]}/healthz", wrong=frozenset({503}), timeout=1.0, token=token)
        if why:
            await asyncio.sleep(0.03)
        else:
            waiting.pop(0)
    if waiting:
        log.warning("the router does not yet route %s", ", ".join(waiting))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
