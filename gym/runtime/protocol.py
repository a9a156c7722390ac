"""What every runtime can do with a plan, and the words in which it reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from pydantic import Field

from gym.plan.model import Change, Observed, Plan, Value
from gym.render.bake import StackImages
from gym.runtime.runtime_names import RuntimeName
from gym.runtime.status import OnStatus, StackStatus


class Prepared(Value):
    """A plan as its runtime runs it: `up` applies it, `changes` compares it, `gym render` prints it."""

    plan: Plan
    secrets: dict[str, str] = Field(default_factory=dict, repr=False)
    images: StackImages | None = None  # where servers run from images
    notices: tuple[str, ...] = ()  # what a user should read before the stack starts
    live: tuple[str, ...] = ()  # instances that read their sources from this machine: a change of one needs no build


class ExecCommand(Value):
    """How to run a command where a server runs."""

    replica: str
    argv: tuple[str, ...]
    env: dict[str, str] | None = Field(default=None, repr=False)  # may hold secrets; None: as it is here
    cwd: Path | None = None


class Runtime(Protocol):
    """Makes a plan real below `home` (`.gym/<stack>`). Every verb is safe to repeat."""

    name: RuntimeName

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

    def exec_command(self, home: Path, name: str, words: tuple[str, ...], *, terminal: bool) -> ExecCommand:
        """`words`, or a shell, beside the server of that name: with its files, its packages and its variables."""
        ...

    def logs(self, home: Path, names: tuple[str, ...], *, follow: bool, tail: int) -> Iterator[str]: ...

    def restart(
        self, home: Path, names: tuple[str, ...], on_status: OnStatus, *, timeout: float | None
    ) -> StackStatus: ...

    def reload(
        self, home: Path, prepared: Prepared, names: tuple[str, ...], on_status: OnStatus, *, timeout: float | None
    ) -> StackStatus:
        """Of a stack that runs as `prepared` but for the files of `names`: these drain and start with the new ones."""
        ...

    def scale(
        self, home: Path, replicas: Mapping[str, int], on_status: OnStatus, *, timeout: float | None
    ) -> StackStatus: ...
