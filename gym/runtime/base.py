"""What every runtime can do with a plan, and the words in which it reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict

from gym.plan.model import Change, Observed, Plan

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


class StackStatus(BaseModel):
    model_config = ConfigDict(frozen=True)

    stack: str
    runtime: Literal["local", "compose"]
    router: str  # "http://127.0.0.1:11000"
    replicas: tuple[ReplicaStatus, ...] = ()

    @property
    def healthy(self) -> bool:
        return bool(self.replicas) and all(one.state == "healthy" for one in self.replicas)


OnStatus = Callable[[StackStatus], None]


class Runtime(Protocol):
    """Makes a plan real below `home` (`.gym/<stack>`). Every verb is safe to repeat."""

    name: Literal["local", "compose"]

    def observe(self, home: Path) -> Observed: ...

    def up(
        self, home: Path, plan: Plan, secrets: Mapping[str, str], on_status: OnStatus, *, timeout: float | None
    ) -> StackStatus:
        """Apply the plan, return when every replica is healthy; `NotUp` names those that are not, and all stay up.

        Without a `timeout` it is `gym.runtime.lateness.start_seconds`.
        """
        ...

    def down(self, home: Path) -> bool:
        """Stop everything this stack ever started; False when there was nothing."""
        ...

    def status(self, home: Path) -> StackStatus | None: ...

    def logs(self, home: Path, names: tuple[str, ...], *, follow: bool, tail: int) -> Iterator[str]: ...

    def restart(
        self, home: Path, names: tuple[str, ...], on_status: OnStatus, *, timeout: float | None
    ) -> StackStatus: ...

    def scale(
        self, home: Path, replicas: Mapping[str, int], on_status: OnStatus, *, timeout: float | None
    ) -> StackStatus: ...


__all__ = ["Change", "OnStatus", "ReplicaState", "ReplicaStatus", "Runtime", "StackStatus"]
