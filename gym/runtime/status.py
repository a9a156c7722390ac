"""How the replicas of a stack are, as every runtime reports it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pydantic import BaseModel, ConfigDict

from gym.runtime.runtime_names import RuntimeName

ReplicaState = Literal["starting", "healthy", "unhealthy", "restarting", "stopping", "exited"]


class ReplicaStatus(BaseModel):
    """One replica as `gym ps` shows it."""

    model_config = ConfigDict(frozen=True)

    instance: str
    replica: str  # "mcqa-1"
    type: str  # a ServerType, or "router" / "console"
    implementation: str
    state: ReplicaState
    url: str = ""
    pid: int | None = None
    container: str = ""
    restarts: int = 0
    uptime_seconds: float = 0.0
    detail: str = ""  # why it is not healthy: "exit code 1", "no answer on /healthz", ...
    last_end: str = ""  # why it ended unasked, the last time; seconds since the epoch
    last_end_at: float = 0.0


class StackStatus(BaseModel):
    model_config = ConfigDict(frozen=True)

    stack: str
    runtime: RuntimeName
    router: str  # "http://127.0.0.1:11000"
    replicas: tuple[ReplicaStatus, ...] = ()

    @property
    def healthy(self) -> bool:
        return bool(self.replicas) and all(one.state == "healthy" for one in self.replicas)


OnStatus = Callable[[StackStatus], None]
