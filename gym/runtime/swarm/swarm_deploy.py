"""From the services there are to those a plan wants: new ones start first; what leaves has left the routes before."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gym.engine import docker_environ
from gym.errors import NotUp
from gym.plan.model import Plan
from gym.programs import run_program
from gym.render.swarm import NAMESPACE, STACK_FILE, service_of
from gym.runtime.compose.containers import Container
from gym.runtime.compose.converge import FOLLOW_SECONDS, ROUTER_SECONDS
from gym.runtime.compose.layout import Layout
from gym.runtime.compose.wait import LAST_LINES, StackHealth, wait_for_routes
from gym.runtime.lateness import MAX_EARLY_EXITS, Late, ends_at_each_start, not_in_time, unhealthy_before
from gym.runtime.status import OnStatus, StackStatus
from gym.runtime.swarm.swarm_engine import SwarmSeen
from gym.runtime.swarm.swarm_logs import service_lines
from gym.runtime.swarm.swarm_replicas import SwarmReplica, find_replicas, status_on_swarm
from gym.wire.stack_names import CONSOLE, ROUTER

if TYPE_CHECKING:
    import docker

LOOK_SECONDS: Final = 0.4
GONE_SECONDS: Final = 60.0  # beyond what the tasks were given to drain


@dataclass(frozen=True)
class Deployment:
    client: docker.DockerClient
    host: str
    layout: Layout
    swarm: SwarmSeen
    on_status: OnStatus
    timeout: float

    def deploy(
        self, plan: Plan, project: str, *, has_registry: bool, not_awaited: Collection[str] = frozenset()
    ) -> StackStatus:
        """The stack's files say what is wanted by now. Services that are `not_awaited` may be unhealthy."""
        resolve = "changed" if has_registry else "never"
        words = ("--detach=true", "--with-registry-auth", f"--resolve-image={resolve}", "--compose-file", STACK_FILE)
        run_program(("docker", "stack", "deploy", *words, project), cwd=self.layout.home, env=docker_environ(self.host))
        status = self.wait(plan, service_names(plan, project).difference(not_awaited))
        self.remove_surplus(plan, project)
        return status

    def wait(self, plan: Plan, expected: Collection[str]) -> StackStatus:
        """Until all of `expected`, names of services, run as they are wanted and are in the routes."""
        deadline, seen = time.monotonic() + self.timeout, None
        while True:
            found = find_replicas(self.client, self.layout)
            status = status_on_swarm(self.layout, plan, found, self.swarm)
            if status != seen:
                self.on_status(status)
                seen = status
            pairs = [pair for pair in zip(found, status.replicas, strict=True) if pair[0].name in expected]
            late = [one for one, said in pairs if said.state != "healthy" or not one.is_current]
            if not late and len(pairs) == len(expected):
                self._wait_for_routes(plan, [one for one, _ in pairs], deadline)
                return status
            self._give_up_on_early_ends(plan, late, status)
            if time.monotonic() > deadline:
                raise self._too_late(plan, late, status, len(expected))
            time.sleep(LOOK_SECONDS)

    def find_not_awaited(self, plan: Plan, is_asked: Callable[[Container], bool]) -> frozenset[str]:
        """Names of services; see `unhealthy_before`."""
        found = find_replicas(self.client, self.layout)
        replicas = status_on_swarm(self.layout, plan, found, self.swarm).replicas
        by_id = {said.replica: one for one, said in zip(found, replicas, strict=True)}
        asked = {id for id, one in by_id.items() if is_asked(one.container)}
        states = {said.replica: said.state for said in replicas}
        unhealthy = unhealthy_before(states, {id: one.failures for id, one in by_id.items()}, asked)
        return frozenset(by_id[id].name for id in unhealthy)

    def remove_surplus(self, plan: Plan, project: str) -> None:
        """Those that are wanted no longer: the console has taken them out of the routes, then they drain."""
        wanted = service_names(plan, project)
        api: Any = self.client.api
        gone = [one for one in find_replicas(self.client, self.layout) if one.name not in wanted]
        if not gone:
            return
        urls, deadline = {one.container.url for one in gone}, time.monotonic() + FOLLOW_SECONDS
        while urls & self.layout.healthy_urls() and time.monotonic() < deadline:
            time.sleep(LOOK_SECONDS / 4)
        time.sleep(ROUTER_SECONDS)  # until the router has re-read its file
        for one in gone:
            api.remove_service(one.container.id)

    def _wait_for_routes(self, plan: Plan, there: list[SwarmReplica], deadline: float) -> None:
        instances = {one.container.instance for one in there} - {ROUTER, CONSOLE}
        wait_for_routes(StackHealth(self.client, plan, (), self.layout.read_token()), instances, deadline)

    def _give_up_on_early_ends(self, plan: Plan, late: list[SwarmReplica], status: StackStatus) -> None:
        """One that ends at each start is reported at its third end, not at the deadline; everything stays up."""
        if any(one.failures >= MAX_EARLY_EXITS for one in late):
            healthy = sum(one.state == "healthy" for one in status.replicas)
            said = [self._late(plan, one, status) for one in late]
            raise ends_at_each_start(said, healthy=healthy, stack=plan.stack)

    def _too_late(self, plan: Plan, late: list[SwarmReplica], status: StackStatus, total: int) -> NotUp:
        said = [self._late(plan, one, status) for one in late] or [Late("a service", "not there", self.timeout)]
        return not_in_time(said, total=total, timeout=self.timeout, stack=plan.stack)

    def _late(self, plan: Plan, one: SwarmReplica, status: StackStatus) -> Late:
        said = next(each for each in status.replicas if each.container == one.container.name)
        log = "\n".join(service_lines(self.client, one.container.id, LAST_LINES))
        return Late(said.replica, said.state, max(0.0, time.time() - one.started_at), said.detail, log, one.failures)


def service_names(plan: Plan, project: str) -> frozenset[str]:
    own = (service_of(project, one, number) for one in plan.services for number in range(1, one.replicas + 1))
    return frozenset({f"{project}_{ROUTER}", f"{project}_{CONSOLE}", *own})


def names_of_services(client: docker.DockerClient, project: str) -> dict[str, str]:
    """By id."""
    api: Any = client.api
    found = api.services(filters={"label": f"{NAMESPACE}={project}"})
    return {one["ID"]: one["Spec"]["Name"] for one in found}


def remove_from_swarm(client: docker.DockerClient, host: str, project: str, drain_seconds: float) -> bool:
    """Services, then, once their tasks are gone, what they used."""
    api: Any = client.api
    names = names_of_services(client, project)
    networks = api.networks(filters={"label": f"{NAMESPACE}={project}"})
    if not names and not networks:
        return False
    for id in names:
        api.remove_service(id)
    deadline = time.monotonic() + drain_seconds + GONE_SECONDS
    while _tasks_left(client, project) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    run_program(("docker", "stack", "rm", project), env=docker_environ(host))
    while api.networks(filters={"label": f"{NAMESPACE}={project}"}) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    return True


def _tasks_left(client: docker.DockerClient, project: str) -> bool:
    """When the tasks of a node that is down have ended cannot be known."""
    api: Any = client.api
    down = {one["ID"] for one in api.nodes() if one["Status"]["State"] == "down"}
    tasks = api.tasks(filters={"label": f"{NAMESPACE}={project}"})
    ending = ("shutdown", "failed", "rejected", "complete", "orphaned", "remove")
    return any(one["Status"]["State"] not in ending and one.get("NodeID") not in down for one in tasks)
