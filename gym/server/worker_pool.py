"""Workers as a part of a server, with the two settings that they have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import Field

from gym.server.base import Server, ServerPart
from gym.server.resources import ResourcesConfig
from gym.server.workers import Workers


class WorkersConfig(ResourcesConfig):
    worker_count: int = Field(2, ge=1)
    """How many processes check answers."""
    cpu_seconds: float = Field(10.0, gt=0)
    """CPU time for one answer. A costlier one is worth 0; a row that makes a blank one as costly is refused."""


def worker_pool(module: str, *, count: int = 2, cpu_seconds: float = 10.0) -> Any:
    """`workers: Workers = worker_pool("scoring")` in a class: they call a module beside the server, and end with it.

    `worker_count` and `cpu_seconds` of the configuration win, where it has them.
    """
    return _WorkerPool(module, count, cpu_seconds)


@dataclass(frozen=True)
class _WorkerPool(ServerPart):
    module: str
    count: int
    cpu_seconds: float

    def make(self, server: Server) -> Workers:
        count = getattr(server.config, "worker_count", self.count)
        seconds = getattr(server.config, "cpu_seconds", self.cpu_seconds)
        return server.own(Workers(self.module, count=count, timeout=seconds, folder=server.here))
