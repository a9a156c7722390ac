"""A loaded stack, started: what `gym up` does once, and again for each change of a stack that it watches."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from gym.cli import console
from gym.cli.field_places import naming_lines
from gym.cli.live_status import live_status
from gym.cli.planning import plan_stack
from gym.cli.profiles import ProfileOf
from gym.cli.stack_session import StackSession
from gym.cli.summary import show_started
from gym.config import StackConfig, collect_secrets
from gym.errors import NotUp
from gym.labels import ENV_TOKEN
from gym.plan import Change, Plan, RouterPlan, changes_to_text
from gym.plan.shared_processes import tell_unshared
from gym.runtime.file_watch import WatchedFiles, watched_folders
from gym.runtime.protocol import Prepared


class Started(NamedTuple):
    plan: Plan
    files: WatchedFiles  # as they were before their servers started


class StackStarter(NamedTuple):
    session: StackSession
    stack: str
    router: RouterPlan
    token: str
    timeout: float | None
    configs: tuple[Path, ...]  # what the command line names beside the servers' own
    profile: ProfileOf | None = None

    def start(self, loaded: StackConfig, *, watch: bool = False) -> Started:
        """With `watch` also where some servers are not healthy: a change may be what they need."""
        home, runtime = self.session
        plan = self.plan(loaded)
        if self.profile:
            self.profile.begin(home, plan)
        files = WatchedFiles(watched_folders(plan), self.config_files(loaded) if watch else ())
        prepared = self.prepare(loaded, plan)
        for line in (*prepared.notices, *tell_unshared(plan, runtime.name)):
            console.note(line)
        _show_changes(runtime.changes(home, prepared))
        try:
            with naming_lines(loaded), live_status(f"starting stack '{self.stack}'") as on_status:
                status = runtime.up(home, prepared, on_status, timeout=self.timeout)
            if plan.sandbox is not None:
                _show_builds(self.session)
            show_started(status, prepared.plan, home)
            if self.profile:
                self.profile.end(home, plan, status.router)
        except NotUp as error:
            if not watch:
                raise
            console.show_error(error)
        return Started(plan, files)

    def plan(self, loaded: StackConfig) -> Plan:
        return plan_stack(self.profile.settle(loaded) if self.profile else loaded, self.stack, self.router)

    def prepare(self, loaded: StackConfig, plan: Plan) -> Prepared:
        secrets = collect_secrets(loaded) | ({ENV_TOKEN: self.token} if self.token else {})
        return self.session.runtime.prepare(self.session.home, plan, secrets)

    def config_files(self, loaded: StackConfig) -> tuple[Path, ...]:
        """An `env.yaml` counts also before it is written."""
        named = (*map(Path, loaded.files), *self.configs, Path("env.yaml"))
        return tuple(dict.fromkeys(path.absolute() for path in named))


def _show_builds(session: StackSession) -> None:
    from gym.cli.sandbox.build_progress import show_builds  # noqa: PLC0415  (an HTTP client, for stacks with a broker)

    show_builds(session)


def _show_changes(changes: tuple[Change, ...]) -> None:
    """Of a stack that runs; on a new one every service would be listed."""
    if any(one.action != "create" for one in changes):
        console.note(changes_to_text(changes).rstrip(), style="")
