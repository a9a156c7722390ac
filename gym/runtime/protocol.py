"""What every runtime can do with a plan, and the words in which it reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from gym.plan.model import Change, Observed, Plan, Value
from gym.render.bake import StackImages

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


class Prepared(Value):
    """A plan as its runtime runs it: `up` applies it, `changes` compares it, `gym render` prints it."""

    plan: Plan
    secrets: dict[str, str] = Field(default_factory=dict, repr=False)
    images: StackImages | None = None  # where servers run from images
    notices: tuple[str, ...] = ()  # what a user should read before the stack starts


class Inside(Value):
    """How to run a command where a server runs."""

    replica: str
    argv: tuple[str, ...]
    env: dict[str, str] | None = Field(default=None, repr=False)  # may hold secrets; None: as it is here
    cwd: Path | None = None


OnStatus = Callable[[StackStatus], None]


class Runtime(Protocol):
    """Makes a plan real below `home` (`.gym/<stack>`). Every verb is safe to repeat."""

    name: Literal["local", "compose"]

    def observe(self, home: Path) -> Observed: ...

    def prepare(self, home: Path, plan: Plan, secrets: Mapping[str, str]) -> Prepared:
        """Decide what the plan leaves to its runtime. Reads this machine, and changes nothing."""
        ...

    def changes(self, home: Path, prepared: Prepared) -> tuple[Change, ...]:
        """What `up` would do to each service of the stack in `home`."""
        ...

    def up(self, home: Path, prepared: Prepared, on_status: OnStatus, *, timeout: float | None) -> StackStatus:
        """Apply it, return when every replica is healthy; `NotUp` names those that are not, and all stay up.

        Without a `timeout` it is `gym.runtime.lateness.start_seconds`.
        """
        ...

    def down(self, home: Path) -> bool:
        """Stop everything this stack ever started; False when there was nothing."""
        ...

    def status(self, home: Path) -> StackStatus | None: ...

    def inside(self, home: Path, name: str, words: tuple[str, ...], *, terminal: bool) -> Inside:
        """`words`, or a shell, beside the server of that name: with its files, its packages and its variables."""
        ...

    def logs(self, home: Path, names: tuple[str, ...], *, follow: bool, tail: int) -> Iterator[str]: ...

    def restart(
        self, home: Path, names: tuple[str, ...], on_status: OnStatus, *, timeout: float | None
    ) -> StackStatus: ...

    def scale(
        self, home: Path, replicas: Mapping[str, int], on_status: OnStatus, *, timeout: float | None
    ) -> StackStatus: ...


__all__ = ["Change", "Inside", "OnStatus", "Prepared", "ReplicaState", "ReplicaStatus", "Runtime", "StackStatus"]
