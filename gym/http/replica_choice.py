"""Which of several replicas is asked: one that is there, healthy, has refused nothing just now, and is least busy."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Protocol, TypeVar

from gym.http.pool import HttpClient

AVOID_SECONDS = 2.0  # how long a replica that refused or broke a connection comes after others


class Choosable(Protocol):
    url: str
    healthy: bool
    vanished: bool  # the stack says so
    avoided_until: float

    @property
    def load(self) -> tuple[int, ...]: ...


C = TypeVar("C", bound=Choosable)


def choose_replica(replicas: Iterable[C], http: HttpClient) -> C:
    """One that is worse in some way is taken where there is no better one."""
    now = time.monotonic()

    def rank(one: C) -> tuple[int, ...]:
        lost = one.vanished or http.is_lost(one.url)
        return lost, not one.healthy, one.avoided_until > now, *one.load

    return min(replicas, key=rank)


def avoid(replica: Choosable) -> None:
    replica.avoided_until = time.monotonic() + AVOID_SECONDS
