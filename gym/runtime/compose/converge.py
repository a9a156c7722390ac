"""From the containers there are to those a plan wants: make way, let Compose change what differs, wait for health.

Cut off at any moment, a stack goes on: Compose finishes what it began, and who keeps the routes needs no command.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gym import labels
from gym.engine import docker_environ
from gym.errors import GymError, ProgramFailed
from gym.plan import diff
from gym.plan.model import Plan
from gym.programs import run_program
from gym.runtime.compose.compose_errors import ServiceNotReady, explain
from gym.runtime.compose.compose_lock import alone_with_compose
from gym.runtime.compose.containers import PROJECT, Container, inspect, list_containers, observed, state_of
from gym.runtime.compose.layout import Layout, State, override_files, write_first_routes
from gym.runtime.compose.teardown import GRACE_SECONDS, hand_over_sandboxes, restart_containers, stop_containers
from gym.runtime.compose.wait import StackHealth, wait_for_routes, wait_until_healthy
from gym.runtime.compose.work import Working
from gym.runtime.lateness import unhealthy_before
from gym.runtime.signals import ignore_interrupts
from gym.runtime.status import OnStatus, StackStatus
from gym.wire.stack_names import CONSOLE, ROUTER, SANDBOX

if TYPE_CHECKING:
    import docker

LOOK_SECONDS: Final = 0.3
FOLLOW_SECONDS: Final = 3.0  # a console that has not taken a replica out of the routes by then never will
LISTED_SECONDS: Final = 20.0  # the same for one that answers and is in no routes: a console may be what `up` repairs
ROUTER_SECONDS: Final = 0.5  # until the router has re-read a file: it waits 0.2 s for more of them


@dataclass(frozen=True)
class Converger:
    """One stack on one engine, and where its progress is reported."""

    client: docker.DockerClient
    host: str
    layout: Layout
    on_status: OnStatus
    timeout: float
    work: Working | None = None  # of a command that changes something

    def converge(
        self, plan: Plan, state: State, *, rewritten: bool, asked: Collection[str] | None = None
    ) -> StackStatus:
        """`rewritten`: the stack's files say something else than the last time. `asked`: instances; of the others, what
        was unhealthy before is not waited for."""
        watch = StackHealth(self.client, plan, (f"{labels.STACK_DIR}={self.layout.home}",), self.layout.read_token())
        before = containers_of(self.client, self.layout)
        named = before if asked is None else [one for one in before if one.instances & {*asked}]
        not_awaited = self._find_not_awaited(before, named)
        if before and (rewritten or state.overrides or not _is_converged(plan, before)):
            hashes = self._config_hashes(state)
            stale = _stale(before, hashes)
            if stale or hashes.keys() - {one.service for one in before} or not _is_converged(plan, before):
                self._change(watch, state, before, stale)
        elif not before:
            write_first_routes(self.layout, plan)
            self._compose_up(watch, state, new=True)
        return self.wait(watch, frozenset(one.name for one in watch.containers()) - not_awaited, new=not before)

    def restart(self, watch: StackHealth, chosen: list[Container]) -> StackStatus:
        """See `restart_alone`; then until all of the stack is healthy, but for what was unhealthy and not asked for."""
        not_awaited = self._find_not_awaited(watch.containers(), chosen)
        self.restart_alone(watch, chosen)
        there = (one.name for one in watch.containers() if one.state != "exited")
        return self.wait(watch, frozenset(there) - not_awaited)

    def restart_alone(self, watch: StackHealth, chosen: list[Container]) -> None:
        """Each drains first; of several replicas the second half goes first, so that others stay to be asked."""
        first = _second_halves(watch.plan, chosen)
        for group in (first, [one for one in chosen if one not in first]):
            if group:
                self._retire(watch.containers(), group)
                hand_over_sandboxes(self.client, group)
                restart_containers(self.client, group, watch.plan.drain_seconds + GRACE_SECONDS)
                self._leave(())
                self.wait(watch, frozenset(one.name for one in group))

    def wait(self, watch: StackHealth, expected: frozenset[str], *, new: bool = False) -> StackStatus:
        """The routes follow by themselves. After a change (a stack that is not `new`) the router may still have the old
        routes, and then some from before the new container answered: so until the console lists it as healthy, too."""
        status = wait_until_healthy(watch, expected, self.on_status, lambda _: None, timeout=self.timeout)
        routed = {one.name for one in watch.plan.services}
        seats = [seat for one in watch.containers() if one.name in expected for seat in one.seats]
        there = [] if new else [seat for seat in seats if seat.instance in routed]
        deadline = time.monotonic() + FOLLOW_SECONDS
        while not {one.url for one in there} <= self.layout.healthy_urls() and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS / 6)
        wait_for_routes(watch, {one.instance for one in there}, deadline)
        return status

    def _find_not_awaited(self, containers: list[Container], chosen: list[Container]) -> frozenset[str]:
        """See `unhealthy_before`; one that ends at each start may be starting at this moment."""
        asked = {one.name for one in chosen}
        states = {one.name: state_of(one) for one in containers}
        starting = [one for one in containers if one.name not in asked and states[one.name] == "starting"]
        facts = ((one, inspect(self.client, one)) for one in starting)
        return unhealthy_before(states, {one.name: found.restarts for one, found in facts if found}, asked)

    def _change(self, watch: StackHealth, state: State, before: list[Container], stale: list[Container]) -> None:
        """What has to go gets no new sessions, then drains; of several replicas the second half goes first."""
        surplus = _surplus(watch.plan, before)
        staying = [one for one in before if one not in surplus]
        first = _second_halves(watch.plan, [one for one in staying if one in stale])
        if surplus or first:
            self._retire(before, [*surplus, *first])
            stop_containers(self.client, [*surplus, *first], watch.plan.drain_seconds + GRACE_SECONDS)
            self._leave(())
        if first:
            services = sorted({one.service for one in first})
            self._compose_up(watch, state, "--no-recreate", "--no-deps", *services)
            ids = {one.id for one in stale}  # they may be unhealthy, which may be why they are replaced
            new = [one for one in watch.containers() if one.service in services and one.id not in ids]
            self.wait(watch, frozenset(one.name for one in new))
            staying = containers_of(self.client, self.layout)
        left = {one.id for one in stale}  # by id: those that were replaced by now have successors of the same name
        self._retire(staying, [one for one in staying if one.id in left])
        if watch.plan.sandbox is not None and any(one.service == SANDBOX for one in stale):
            hand_over_sandboxes(self.client, stale)
            self._replace_alone(watch, state, [SANDBOX])
        names = {one.name for one in watch.plan.sidecars}
        if sidecars := sorted({one.service for one in stale if one.instance in names}):
            self._replace_alone(watch, state, sidecars)
        self._compose_up(watch, state, "--remove-orphans")
        self._leave(())

    def _replace_alone(self, watch: StackHealth, state: State, services: list[str]) -> None:
        """Compose would also replace what depends on them."""
        self._compose_up(watch, state, "--no-deps", *services)

    def _retire(self, containers: list[Container], leaving: list[Container]) -> None:
        """Those that leave get no new requests, and finish the others before they are stopped. They leave once those
        that stay are in the routes: to the engine a new one is healthy before the console and the router know."""
        followed = leaving and any(one.service == CONSOLE and one.state == "running" for one in containers)
        if followed and (staying := _urls_that_stay(containers, leaving)):
            self._until(lambda: staying <= self.layout.healthy_urls(), LISTED_SECONDS)
        self._leave(one.name for one in leaving)
        if followed:
            urls = {seat.url for one in leaving for seat in one.seats}
            self._until(lambda: not urls & self.layout.healthy_urls(), FOLLOW_SECONDS)

    def _until(self, holds: Callable[[], bool], seconds: float) -> None:
        """The routes are so, and have been for as long as the router needs to read them; or time is up."""
        since = time.monotonic()
        deadline = since + seconds
        while time.monotonic() - since < ROUTER_SECONDS:
            time.sleep(LOOK_SECONDS / 6)
            if not holds():
                since = time.monotonic()
                if since > deadline:
                    return

    def _leave(self, names: Iterable[str]) -> None:
        assert self.work is not None, "only who is at work changes routes"
        self.work.leave(names)

    def find_stale(self, state: State, containers: list[Container]) -> list[Container]:
        """Those that Compose would replace, or remove, for the files there are."""
        return _stale(containers, self._config_hashes(state))

    def _config_hashes(self, state: State) -> dict[str, str]:
        """What Compose compares with its label on a container, to tell which ones it would replace."""
        argv = compose_argv(self.layout, state, "config", "--hash", "*")
        lines = self._run(argv, state).splitlines()
        return {name: digest for name, _, digest in (line.partition(" ") for line in lines) if digest}

    def _compose_up(self, watch: StackHealth, state: State, *words: str, new: bool = False) -> None:
        """An interruption ends the making of a stack that is `new`; of one that serves, the change is finished."""
        argv = compose_argv(self.layout, state, "up", "--detach", "--no-build", "--pull", "missing", *words)
        running: list[subprocess.Popen[str]] = []

        def interrupt() -> None:
            for one in running if new else ():
                one.send_signal(signal.SIGINT)

        try:
            with alone_with_compose(self.layout.compose_lock, state.project) as lock:
                self._telling(watch, lambda: self._run(argv, state, running.append, (lock,)), interrupt)
        except ServiceNotReady:  # named in a moment, with its last words, as any server that does not come up
            self._start_what_is_there(watch)
        except GymError:
            if not new:
                self._start_what_is_there(watch)
            raise

    def _start_what_is_there(self, watch: StackHealth) -> None:
        """Compose gives up on all for the failure of one: the others, old or new, need only be started."""
        import docker.errors  # noqa: PLC0415

        for one in watch.containers():
            known = {ROUTER, CONSOLE, SANDBOX, *(each.name for each in watch.plan.sidecars)}
            known |= {each.name for each in watch.plan.services}
            if {one.service, *one.instances} & known and one.state in ("created", "exited"):
                with suppress(docker.errors.APIError):
                    self.client.api.start(one.id)

    def _run(
        self,
        argv: tuple[str, ...],
        state: State,
        on_start: Callable[[subprocess.Popen[str]], None] | None = None,
        pass_fds: tuple[int, ...] = (),
    ) -> str:
        environ = docker_environ(self.host)
        try:
            return run_program(argv, cwd=self.layout.home, env=environ, on_start=on_start, pass_fds=pass_fds)
        except ProgramFailed as error:
            raise explain(error, tuple(Path(one) for one in state.overrides)) from None

    def _telling(self, watch: StackHealth, work: Callable[[], object], interrupt: Callable[[], None]) -> None:
        """Report what is there while Compose works. An interruption waits for its end, for it would go on creating."""
        with ThreadPoolExecutor(1) as pool:
            done = pool.submit(work)
            try:
                while not done.done():
                    self.on_status(watch.status(watch.containers()))
                    _settle(done.exception, LOOK_SECONDS)
            except BaseException:
                with ignore_interrupts():
                    interrupt()
                    pool.shutdown()
                raise
            done.result()


def _stale(containers: Iterable[Container], hashes: Mapping[str, str]) -> list[Container]:
    return [one for one in containers if hashes.get(one.service) != one.config_hash]


def _is_converged(plan: Plan, containers: list[Container]) -> bool:
    own = {one.service for one in containers if one.state == "running"}
    return {ROUTER, CONSOLE} <= own and all(one.action == "keep" for one in diff(plan, observed(containers)))


def compose_argv(layout: Layout, state: State, *words: str) -> tuple[str, ...]:
    files = (
        "--file",
        str(layout.compose),
        *(part for path in override_files(layout, state) for part in ("--file", path)),
    )
    return ("docker", "compose", "--project-name", state.project, *files, *words)


def containers_of(client: docker.DockerClient, layout: Layout) -> list[Container]:
    """By our label, and by Compose's own for what an override file added."""
    found = {one.id: one for one in list_containers(client, f"{labels.STACK_DIR}={layout.home}")}
    project = layout.read_state().project
    found |= {one.id: one for one in list_containers(client, f"{PROJECT}={project}")}
    return sorted(found.values(), key=lambda one: (one.service, one.number))


def _surplus(plan: Plan, containers: Iterable[Container]) -> list[Container]:
    wanted = {one.name: one.own_replicas for one in plan.services}  # what others share stays: Compose replaces it
    by_instance: dict[str, list[Container]] = {}
    for one in containers:
        if one.service not in (ROUTER, CONSOLE):
            by_instance.setdefault(one.instance, []).append(one)
    return [one for name, group in by_instance.items() if name in wanted for one in group[wanted[name] :]]


def _urls_that_stay(containers: Iterable[Container], leaving: list[Container]) -> set[str]:
    """Of the healthy replicas that stay, of the instances whose others leave."""
    gone = {one.id for one in leaving}
    instances = {name for one in leaving for name in one.instances} - {ROUTER, CONSOLE, SANDBOX}
    there = [seat for one in containers if one.id not in gone and one.health == "healthy" for seat in one.seats]
    return {seat.url for seat in there if seat.instance in instances}


def _second_halves(plan: Plan, containers: Iterable[Container]) -> list[Container]:
    """Of each instance with several replicas: those with the higher numbers, which Compose gives out again."""
    shared_first = sorted(containers, key=lambda one: one.seats == (one,))
    groups = [[one for one in shared_first if service.name in one.instances] for service in plan.services]
    return [one for group in groups for one in group[(len(group) + 1) // 2 :]]


def _settle(wait: Callable[[float], object], seconds: float) -> None:
    with suppress(TimeoutError):
        wait(seconds)
