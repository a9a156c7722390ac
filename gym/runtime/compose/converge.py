"""From the containers there are to those a plan wants: make way, let Compose change what differs, wait for health."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gym import labels
from gym.errors import ProgramFailed
from gym.plan import diff
from gym.plan.model import Plan
from gym.plan.sandbox import SANDBOX
from gym.render.compose import CONSOLE, ROUTER
from gym.runtime.base import OnStatus, StackStatus
from gym.runtime.compose.containers import PROJECT, Container, discovery_of, list_containers, observed
from gym.runtime.compose.engine import docker_environ
from gym.runtime.compose.layout import Layout, State, write_routes
from gym.runtime.compose.teardown import GRACE_SECONDS, hand_over_sandboxes, restart_containers, stop_containers
from gym.runtime.compose.trouble import explain
from gym.runtime.compose.wait import Watch, wait_until_healthy
from gym.runtime.programs import run_program
from gym.runtime.signals import deaf

if TYPE_CHECKING:
    import docker

LOOK_SECONDS: Final = 0.3
ROUTER_SECONDS: Final = 0.5  # until the router has read a file anew: it waits 0.2 s for more of them


@dataclass(frozen=True)
class Converger:
    """One stack on one engine, and who wants to hear how it goes."""

    client: docker.DockerClient
    host: str
    layout: Layout
    on_status: OnStatus
    timeout: float

    def converge(self, plan: Plan, state: State, *, rewritten: bool) -> StackStatus:
        """`rewritten`: the stack's files say something else than the last time."""
        watch = Watch(self.client, plan, (f"{labels.STACK_DIR}={self.layout.home}",), self.layout.read_token())
        before = containers_of(self.client, self.layout)
        if before and (rewritten or state.overrides or not _is_converged(plan, before)):
            hashes = self._config_hashes(state)
            stale = _stale(before, hashes)
            if stale or hashes.keys() - {one.service for one in before} or not _is_converged(plan, before):
                self._change(watch, state, before, stale)
        elif not before:
            self._route_to(watch, [])
            self._compose_up(watch, state)
        return self.wait(watch, frozenset(one.name for one in watch.containers()))

    def restart(self, watch: Watch, chosen: list[Container]) -> StackStatus:
        """Each drains first; of several replicas the second half goes first, so that others stay to be asked."""
        first = _second_halves(watch.plan, chosen)
        for group in (first, [one for one in chosen if one not in first]):
            if group:
                self._retire(watch, watch.containers(), group)
                hand_over_sandboxes(self.client, group)
                restart_containers(self.client, group, watch.plan.drain_seconds + GRACE_SECONDS)
                self.wait(watch, frozenset(one.name for one in group))
        return self.wait(watch, frozenset(one.name for one in watch.containers()))

    def wait(self, watch: Watch, expected: frozenset[str]) -> StackStatus:
        def tell(containers: list[Container]) -> None:
            write_routes(self.layout, watch.plan, discovery_of(watch.plan, containers, watch.router_url))

        return wait_until_healthy(watch, expected, self.on_status, tell, timeout=self.timeout)

    def _change(self, watch: Watch, state: State, before: list[Container], stale: list[Container]) -> None:
        """Whoever has to go gets no new sessions, then drains; of several replicas the second half goes first."""
        surplus = _surplus(watch.plan, before)
        staying = [one for one in before if one not in surplus]
        first = _second_halves(watch.plan, [one for one in staying if one in stale])
        if surplus or first:
            self._retire(watch, staying, [*surplus, *first])
            stop_containers(self.client, [*surplus, *first], watch.plan.drain_seconds + GRACE_SECONDS)
        if first:
            services = sorted({one.service for one in first})
            self._compose_up(watch, state, "--no-recreate", "--no-deps", *services)
            ids = {one.id for one in stale}  # they may be ill, which may be why they are replaced
            new = [one for one in watch.containers() if one.service in services and one.id not in ids]
            self.wait(watch, frozenset(one.name for one in new))
            staying = containers_of(self.client, self.layout)
        self._retire(watch, staying, stale)
        if watch.plan.sandbox is not None and any(one.service == SANDBOX for one in stale):
            hand_over_sandboxes(self.client, stale)
            self._compose_up(
                watch, state, "--no-deps", SANDBOX
            )  # by itself: Compose replaces who depends on it as well
        self._compose_up(watch, state, "--remove-orphans")

    def _retire(self, watch: Watch, containers: list[Container], leaving: list[Container]) -> None:
        """Nobody is sent to those that leave; who was, has been, before they are told to end."""
        ids = {one.id for one in leaving}
        self._route_to(watch, [one for one in containers if one.id not in ids])
        if ids:
            time.sleep(ROUTER_SECONDS)

    def _route_to(self, watch: Watch, containers: list[Container]) -> None:
        write_routes(self.layout, watch.plan, discovery_of(watch.plan, containers, watch.router_url))

    def find_stale(self, state: State, containers: list[Container]) -> list[Container]:
        """Those that Compose would replace, or remove, for the files there are."""
        return _stale(containers, self._config_hashes(state))

    def _config_hashes(self, state: State) -> dict[str, str]:
        """What Compose compares with its label on a container, to tell which ones it would replace."""
        argv = compose_argv(self.layout, state, "config", "--hash", "*")
        lines = self._run(argv, state).splitlines()
        return {name: digest for name, _, digest in (line.partition(" ") for line in lines) if digest}

    def _compose_up(self, watch: Watch, state: State, *words: str) -> None:
        argv = compose_argv(self.layout, state, "up", "--detach", "--no-build", "--pull", "missing", *words)
        self._telling(watch, lambda: self._run(argv, state))

    def _run(self, argv: tuple[str, ...], state: State) -> str:
        try:
            return run_program(argv, cwd=self.layout.home, env=docker_environ(self.host))
        except ProgramFailed as error:
            raise explain(error, tuple(Path(one) for one in state.overrides)) from None

    def _telling(self, watch: Watch, work: Callable[[], object]) -> None:
        """Report what is there while Compose works. An interruption waits for its end, for it would go on creating."""
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(work)
            try:
                while not done.done():
                    self.on_status(watch.status(watch.containers(), detailed=False))
                    _settle(done.exception, LOOK_SECONDS)
            except BaseException:
                with deaf():
                    pool.shutdown()
                raise
            done.result()


def _stale(containers: Iterable[Container], hashes: Mapping[str, str]) -> list[Container]:
    return [one for one in containers if hashes.get(one.service) != one.config_hash]


def _is_converged(plan: Plan, containers: list[Container]) -> bool:
    own = {one.service for one in containers if one.state == "running"}
    return {ROUTER, CONSOLE} <= own and all(one.action == "keep" for one in diff(plan, observed(containers)))


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


def _second_halves(plan: Plan, containers: Iterable[Container]) -> list[Container]:
    """Of each instance with several replicas: those with the higher numbers, which Compose gives out again."""
    groups = [[one for one in containers if one.instance == service.name] for service in plan.services]
    return [one for group in groups for one in group[(len(group) + 1) // 2 :]]


def _settle(wait: Callable[[float], object], seconds: float) -> None:
    with suppress(TimeoutError):
        wait(seconds)
