"""What a server's configuration says of all its sandboxes; and the deletion of one that could not be made ready."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic import BaseModel, ConfigDict, Field

from gym.sandbox.broker_client import Sandbox
from gym.wire.sandbox import Limits, Size


class SandboxDefaults(BaseModel):
    """What a sandbox gets where its task does not say. A server derives from it to add settings of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cpus: float = Field(default=1.0, gt=0)
    memory: Size = 2 << 30
    pids: int = Field(default=512, ge=16)
    ttl: float = Field(default=7200.0, gt=0)
    create_timeout: float = Field(default=1800.0, gt=0)  # an image may have to be fetched or built first

    def limits(self, *, cpus: float | None = None, memory: int | None = None, disk: int | None = None) -> Limits:
        """The task's own limits come first."""
        own = {} if disk is None else {"disk": disk}
        return Limits(cpus=cpus or self.cpus, memory=memory or self.memory, pids=self.pids, **own)


@asynccontextmanager
async def delete_on_error(sandbox: Sandbox) -> AsyncIterator[None]:
    """Deletes the sandbox where the block raises: until a session owns it, nothing else would."""
    try:
        yield
    except BaseException:
        await sandbox.delete()
        raise
