"""The local runtime: a plan as processes of this machine, owned by a supervisor that every command asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gym.runtime.local.home import Home
from gym.runtime.local.process_logs import read_logs
from gym.runtime.local.supervisor_requests import change, look, orphans, runs
from gym.runtime.runtime_names import RuntimeName
from gym.runtime.status import OnStatus, StackStatus

if TYPE_CHECKING:
    from gym.plan.model import Change, Observed, Plan
    from gym.runtime.protocol import ExecCommand, Prepared


class LocalRuntime:
    """gym.runtime.protocol.Runtime; see there."""

    name: RuntimeName = "local"

    def observe(self, home: Path) -> Observed:
        from gym.plan.model import Observed  # noqa: PLC0415  (as above)

        seen = look(Home(home.resolve()))
        return Observed.model_validate(seen["observed"]) if seen else Observed()

    def prepare(self, home: Path, plan: Plan, secrets: Mapping[str, str]) -> Prepared:
        from gym.plan.shared_processes import running_processes  # noqa: PLC0415  (as above)
        from gym.runtime.local.sandbox_provider import read_sandbox_facts  # noqa: PLC0415  (as above)
        from gym.runtime.local.starting import prepare, read_plan  # noqa: PLC0415  (as above)

        former = read_plan(Home(home.resolve()))
        running = running_processes(former, self.observe(home)) if former else {}
        return prepare(plan, secrets, read_sandbox_facts(plan), running)

    def changes(self, home: Path, prepared: Prepared) -> tuple[Change, ...]:
        from gym.plan.plan_diff import diff, router_change  # noqa: PLC0415  (as above)
        from gym.runtime.local.starting import read_plan  # noqa: PLC0415  (as above)

        observed = self.observe(home)
        former = read_plan(Home(home.resolve())) if observed.services else None
        return (*diff(prepared.plan, observed), *router_change(former, prepared.plan))

    def up(self, home: Path, prepared: Prepared, on_status: OnStatus, *, timeout: float | None) -> StackStatus:
        from gym.runtime.local.starting import start  # noqa: PLC0415  (what a stack is made of takes long to load)

        return start(home, prepared, on_status, timeout=timeout)

    def down(self, home: Path) -> bool:
        from gym.runtime.local.starting import end  # noqa: PLC0415  (as above)

        return end(home)

    def status(self, home: Path) -> StackStatus | None:
        place = Home(home.resolve())
        seen = look(place)
        return StackStatus.read(seen["status"]) if seen else orphans(place)

    def exec_command(self, home: Path, name: str, words: tuple[str, ...], *, terminal: bool) -> ExecCommand:
        from gym.runtime.local.exec_command import find_exec_command  # noqa: PLC0415  (as above)

        return find_exec_command(Home(home.resolve()), name, words)

    def logs(self, home: Path, names: tuple[str, ...], *, follow: bool, tail: int) -> Iterator[str]:
        place = Home(home.resolve())
        return read_logs(place, names, follow=follow, tail=tail, runs=lambda: runs(place))

    def restart(self, home: Path, names: tuple[str, ...], on_status: OnStatus, *, timeout: float | None) -> StackStatus:
        return change(home, on_status, "restart", names=list(names), timeout=timeout)

    def reload(
        self, home: Path, prepared: Prepared, names: tuple[str, ...], on_status: OnStatus, *, timeout: float | None
    ) -> StackStatus:
        from gym.runtime.preparing import reload_changed  # noqa: PLC0415  (as above)

        return reload_changed(self, home, prepared, names, on_status, timeout=timeout)

    def scale(
        self, home: Path, replicas: Mapping[str, int], on_status: OnStatus, *, timeout: float | None
    ) -> StackStatus:
        return change(home, on_status, "scale", replicas=dict(replicas), timeout=timeout)
