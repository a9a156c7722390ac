"""Helpers for many tasks at once: the first to end, the first error, enough open files."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, Final

from gym.errors import UserError
from gym.http.pool import HttpClient
from gym.http.published_port import PublishedPortDial

_OWN = 64  # descriptors for everything but connections
_FEW: Final = 256  # rollouts at once that any server has files for


async def first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    """Returns when one of them does, or raises its error, and cancels the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in ended:
            task.result()
    finally:
        for task in tasks:
            task.cancel()


def allow_connections(concurrency: int) -> None:
    """Raises this process's own limit of open files where it is allowed to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = concurrency + _OWN
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (ValueError, OSError) as error:
        raise UserError(
            f"{concurrency} rollouts at once need {wanted} open files; this machine allows {hard}",
            f"raise it (ulimit -Hn {wanted}, as root), or use --concurrency {max(soft - _OWN, 1)}",
        ) from error


def make_client(concurrency: int) -> HttpClient:
    """One that holds a connection for each rollout in flight, as far as this machine allows it."""
    allow_connections(concurrency)
    return HttpClient(dial=PublishedPortDial(concurrency))


async def find_tight_agents(
    agents: Collection[str], concurrency: int, ask: Callable[[str], Awaitable[int]]
) -> list[str]:
    """A warning for each agent that cannot hold so many rollouts; `ask` says how many one can, 0: it does not say."""
    if concurrency <= _FEW:
        return []
    found = {agent: await ask(agent) for agent in sorted(agents)}
    return [
        f"{agent} has open files for {limit} rollouts at once, {concurrency} are asked for: more are refused. Raise "
        f"the hard limit where it runs (ulimit -Hn), add replicas (gym scale {agent}=N), or use --concurrency {limit}"
        for agent, limit in found.items()
        if 0 < limit < concurrency
    ]
