"""From the containers there are to those a plan wants: make way, let Compose change what differs, wait for health."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gym import labels
from gym.errors import ProgramFailed
from gym.plan import diff
from gym.plan.model import Plan
from gym.render.compose import CONSOLE, ROUTER
from gym.runtime.base import OnStatus, StackStatus
from gym.runtime.compose.containers import PROJECT, Container, discovery_of, list_containers, observed
from gym.runtime.compose.engine import docker_environ
from gym.runtime.compose.layout import Layout, State, write_routes
from gym.runtime.compose.teardown import GRACE_SECONDS, stop_containers
from gym.runtime.compose.trouble import explain
from gym.runtime.compose.wait import Watch, wait_until_healthy
from gym.runtime.programs import run_program

if TYPE_CHECKING:
    import docker

LOOK_SECONDS: Final = 0.3


@dataclass(frozen=True)
class Converger:
    """One stack on one engine, and who wants to hear how it goes."""

    client: docker.DockerClient
    host: str
    layout: Layout
    on_status: OnStatus
    timeout: float

    def converge(self, plan: Plan, state: State, *, rewritten: bool) -> StackStatus:
        """`rewritten`: the Compose file says something else than the last time."""
        watch = Watch(self.client, plan, (f"{labels.STACK_DIR}={self.layout.home}",), self.layout.read_token())
        before = watch.containers()
        if rewritten or not self._is_converged(plan, before):
            self._make_way(watch, before)
            self._compose_up(watch, state)
        expected = frozenset(one.name for one in watch.containers())
        return self.wait(watch, expected)

    def wait(self, watch: Watch, expected: frozenset[str]) -> StackStatus:
        def tell(containers: list[Container]) -> None:
            write_routes(self.layout, watch.plan, discovery_of(watch.plan, containers, watch.router_url))

        return wait_until_healthy(watch, expected, self.on_status, tell, timeout=self.timeout)

    def _is_converged(self, plan: Plan, containers: list[Container]) -> bool:
        own = {one.service for one in containers if one.state == "running"}
        changes = diff(plan, observed(containers))
        return {ROUTER, CONSOLE} <= own and all(one.action == "keep" for one in changes)

    def _make_way(self, watch: Watch, before: list[Container]) -> None:
        """New sessions go elsewhere first; then those that are too many drain and leave, the highest numbers."""
        changes = {one.service: one.action for one in diff(watch.plan, observed(before))}
        surplus = _surplus(watch.plan, before)
        staying = [one for one in before if changes.get(one.instance) in ("keep", "scale") and one not in surplus]
        write_routes(self.layout, watch.plan, discovery_of(watch.plan, staying, watch.router_url))
        stop_containers(self.client, surplus, watch.plan.drain_seconds + GRACE_SECONDS)

    def _compose_up(self, watch: Watch, state: State) -> None:
        argv = compose_argv(self.layout, state, "up", "--detach", "--no-build", "--remove-orphans", "--pull", "missing")
        self._telling(watch, lambda: run_program(argv, cwd=self.layout.home, env=docker_environ(self.host)), state)

    def _telling(self, watch: Watch, work: Callable[[], object], state: State) -> None:
        """Report what is there while Compose works; its failure becomes a paragraph."""
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(work)
            while not done.done():
                self.on_status(watch.status(watch.containers(), detailed=False))
                _settle(done.exception, LOOK_SECONDS)
            try:
                done.result()
            except ProgramFailed as error:
                raise explain(error, tuple(Path(one) for one in state.overrides)) from None


def compose_argv(layout: Layout, state: State, *words: str) -> tuple[str, ...]:
    files = ("--file", str(layout.compose), *(part for path in state.overrides for part in ("--file", path)))
    return ("docker", "compose", "--project-name", state.project, *files, *words)


def containers_of(client: docker.DockerClient, layout: Layout) -> list[Container]:
    """By our label, and by Compose's own for what an override file added."""
    found = {one.id: one for one in list_containers(client, f"{labels.STACK_DIR}={layout.home}")}
    project = layout.read_state().project
    found |= {one.id: one for one in list_containers(client, f"{PROJECT}={project}")}
    return sorted(found.values(), key=lambda one: (one.service, one.number))


def _surplus(plan: Plan, containers: Iterable[Container]) -> list[Container]:
    wanted = {one.name: one.replicas for one in plan.services}
    by_instance: dict[str, list[Container]] = {}
    for one in containers:
        if one.service not in (ROUTER, CONSOLE):
            by_instance.setdefault(one.instance, []).append(one)
    return [one for name, group in by_instance.items() if name in wanted for one in group[wanted[name] :]]


def _settle(wait: Callable[[float], object], seconds: float) -> None:
    with suppress(TimeoutError):
        wait(seconds)
