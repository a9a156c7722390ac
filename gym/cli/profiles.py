"""`--profile observability` as a command is given it; what it writes is loaded for those who ask for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

if TYPE_CHECKING:
    from gym.config import StackConfig
    from gym.plan import Plan

Profile = Annotated[
    Literal["observability"] | None,
    typer.Option("--profile", metavar="NAME", help="observability: Prometheus, Grafana and a trace store beside it."),
]


class ProfileOf(NamedTuple):
    """The profile on a runtime: in a stack of containers services of it, beside a local one files for programs."""

    runtime: str

    def settle(self, loaded: StackConfig) -> StackConfig:
        from gym.cli import profile_files  # noqa: PLC0415  (a renderer: 50 ms, as below)

        return profile_files.with_trace_store(loaded) if self.runtime == "compose" else loaded

    def begin(self, home: Path, plan: Plan) -> None:
        from gym.cli import profile_files  # noqa: PLC0415

        if self.runtime == "compose":
            profile_files.write_for_containers(home, plan)

    def end(self, home: Path, plan: Plan, router: str) -> None:
        from gym.cli import profile_files  # noqa: PLC0415

        if self.runtime == "compose":
            profile_files.show_addresses()
        else:
            profile_files.write_for_programs(home, plan, router)


def compose_file(home: Path) -> Path:
    """What is merged over the stack's own file."""
    from gym.cli import profile_files  # noqa: PLC0415

    return profile_files.compose_file(home)
