"""Marks a behaviour with what a provider must be able to do for it to be tried."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from gym.broker.conformance.harness import Harness

Run = TypeVar("Run", bound=Callable[[Harness], Awaitable[None]])


def requires(*abilities: str) -> Callable[[Run], Run]:
    def mark(run: Run) -> Run:
        run.requires = abilities  # type: ignore[attr-defined]  # read back by collect_behaviours
        return run

    return mark
