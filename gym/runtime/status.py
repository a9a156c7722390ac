"""How the replicas of a stack are, as every runtime reports it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Self

from gym.runtime.runtime_names import RuntimeName

ReplicaState = Literal["starting", "healthy", "unhealthy", "restarting", "stopping", "exited"]


@dataclass(frozen=True)
class ReplicaStatus:
    """One replica as `gym ps` shows it; no pydantic, whose import alone takes a tenth of a second of CPU."""

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

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """As another process wrote it; fields of a newer one are passed over."""
        return cls(**{one.name: document[one.name] for one in fields(cls) if one.name in document})


@dataclass(frozen=True)
class StackStatus:
    stack: str
    runtime: RuntimeName
    router: str  # "http://127.0.0.1:11000"
    replicas: tuple[ReplicaStatus, ...] = ()

    @property
    def healthy(self) -> bool:
        return bool(self.replicas) and all(one.state == "healthy" for one in self.replicas)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        replicas = tuple(map(ReplicaStatus.read, document.get("replicas", ())))
        return cls(document["stack"], document["runtime"], document["router"], replicas)


OnStatus = Callable[[StackStatus], None]
