"""What a server's configuration says of all its sandboxes, and how one that cannot be made ready goes away."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic import BaseModel, ConfigDict, Field

from gym.sandbox.broker_client import Sandbox
from gym.wire.sandbox import Limits, Size


class PlaceLimits(BaseModel):
    """Subclass it for what a server has besides."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cpus: float = Field(default=1.0, gt=0)
    memory: Size = 2 << 30
    pids: int = Field(default=512, ge=16)
    ttl: float = Field(default=7200.0, gt=0)
    create_timeout: float = Field(default=1800.0, gt=0)  # an image may have to be fetched or built first

    def limits(self, *, cpus: float | None = None, memory: int | None = None, disk: int | None = None) -> Limits:
        """With what a task says itself."""
        own = {} if disk is None else {"disk": disk}
        return Limits(cpus=cpus or self.cpus, memory=memory or self.memory, pids=self.pids, **own)


@asynccontextmanager
async def kept_if_ready(box: Sandbox) -> AsyncIterator[None]:
    """Around what makes it ready: where that fails, nothing else would delete it."""
    try:
        yield
    except BaseException:
        await box.delete()
        raise
