"""Helpers for many tasks at once: the first to end, the first error, enough open files."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Coroutine
from typing import Any

from gym.errors import UserError

_OWN = 64  # descriptors for everything but connections


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


def first_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error that ended a group; the others followed from it."""
    first = errors.exceptions[0]
    return first_error(first) if isinstance(first, BaseExceptionGroup) else first


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
