"""From started to healthy: watch the containers of a stack until every one answers, or say which does not and why."""

from __future__ import annotations

import http.client
import re
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from gym.errors import StartFailed
from gym.plan.model import Plan, Service
from gym.render.compose import ROUTER
from gym.render.traefik import route_prefix
from gym.runtime.base import OnStatus, ReplicaStatus, StackStatus
from gym.runtime.compose.containers import (
    Container,
    Inspected,
    inspect,
    list_containers,
    replica_id,
    state_of,
    status_of,
)

if TYPE_CHECKING:
    import docker

LOOK_SECONDS: Final = 0.15
QUICK_EXITS: Final = 2  # a server that ended so often before it was healthy even once will not come up
MANY_EXITS: Final = 6
LAST_LINES: Final = 20
AT_ONCE: Final = 8
UNNAMED: Final = re.compile(r"^[0-9a-f]{12}_")
NOT_READY: Final = frozenset({502, 503, 504})


@dataclass(frozen=True)
class Watch:
    """What is watched: one stack, as the plan wants it."""

    client: docker.DockerClient
    plan: Plan
    filters: tuple[str, ...]
    token: str = ""

    @property
    def router_url(self) -> str:
        return router_url(self.plan)

    def containers(self) -> list[Container]:
        """Without those that Compose is about to rename: a replacement is there before its predecessor's name is."""
        return [one for one in list_containers(self.client, *self.filters) if not UNNAMED.match(one.name)]

    def status(self, containers: Iterable[Container], *, detailed: bool) -> StackStatus:
        """With `detailed`, every container is inspected; without, only those that are not healthy."""
        wanted = list(containers)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            replicas = tuple(pool.map(lambda one: self._replica(one, detailed=detailed), wanted))
        return StackStatus(stack=self.plan.stack, runtime="compose", router=self.router_url, replicas=replicas)

    def _replica(self, container: Container, *, detailed: bool) -> ReplicaStatus:
        answers = self.answers(container)
        healthy = state_of(container, answers=answers) == "healthy"
        facts = None if healthy and not detailed else inspect(self.client, container)
        return status_of(container, self.plan, facts=facts, answers=answers)

    def answers(self, container: Container) -> bool:
        """For what has no health check of its own: the router itself, and images that nobody knows."""
        if container.health or container.state != "running":
            return True
        if container.service == ROUTER:
            return self._get("/healthz") is not None
        service = self.plan.service(container.instance)
        # What an override file brought: running is all that we can ask.
        return service is None or self.is_routed(service)

    def is_routed(self, service: Service) -> bool:
        """The router passes a request on to it. Its answer does not matter, nor whether it knows the path."""
        status = self._get(f"{route_prefix(service)}/healthz")
        return status is not None and status not in NOT_READY

    def _get(self, path: str) -> int | None:
        host, _, port = self.router_url.removeprefix("http://").rpartition(":")
        connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=2.0)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self.token}"} if self.token else {})
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()


def router_url(plan: Plan) -> str:
    """Where a caller on this machine finds the router."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(plan.router.host, plan.router.host)
    return f"http://[{host}]:{plan.router.port}" if ":" in host else f"http://{host}:{plan.router.port}"


def wait_until_healthy(
    watch: Watch,
    expected: frozenset[str],
    on_status: OnStatus,
    on_change: Callable[[list[Container]], None],
    *,
    timeout: float,
) -> StackStatus:
    """Until all of `expected` (names of containers) are; `on_change` hears of every look at which something was new."""
    deadline = time.monotonic() + timeout
    seen: StackStatus | None = None
    while True:
        containers = watch.containers()
        status = watch.status(containers, detailed=False)
        if status != seen:
            on_change(containers)
            on_status(status)
            seen = status
        waiting = [one for one in status.replicas if one.container in expected and one.state != "healthy"]
        missing = expected - {one.container for one in status.replicas}
        if not waiting and not missing:
            _wait_for_routes(watch, deadline)
            return status
        by_name = {one.name: one for one in containers}
        for one in waiting:
            if one.state in ("restarting", "exited", "unhealthy") or one.restarts >= QUICK_EXITS:
                _give_up_on_quick_exit(watch, by_name[one.container], one)
        if time.monotonic() > deadline:
            raise _too_late(watch, waiting, by_name, missing, timeout)
        time.sleep(LOOK_SECONDS)


def _wait_for_routes(watch: Watch, deadline: float) -> None:
    """The router reads its files a moment after they were written; who was told `healthy` may call at once."""
    waiting = [one for one in watch.plan.services if one.replicas]
    while waiting and time.monotonic() < deadline:
        waiting = [one for one in waiting if not watch.is_routed(one)]
        if waiting:
            time.sleep(LOOK_SECONDS / 3)


def last_words(client: docker.DockerClient, container: Container, lines: int = LAST_LINES) -> str:
    import docker.errors  # noqa: PLC0415

    try:
        raw: bytes = client.api.logs(container.id, stdout=True, stderr=True, tail=lines)
    except docker.errors.APIError:
        return ""
    return raw.decode("utf-8", "replace").strip()


def _give_up_on_quick_exit(watch: Watch, container: Container, status: ReplicaStatus) -> None:
    facts = inspect(watch.client, container)
    if facts is None:
        return
    if status.state == "unhealthy":
        raise _failed(watch, container, f"its health check fails: {facts.health_output or 'no answer'}")
    if facts.running and facts.restarts < MANY_EXITS:
        return  # the next look may find it ended, and then the engine knows how
    if facts.restarts >= QUICK_EXITS or container.state == "exited":
        raise _failed(watch, container, _why_ended(facts))


def _why_ended(facts: Inspected) -> str:
    if facts.out_of_memory:
        return "it was killed because it needed more memory than it may have (`memory:` of the instance)"
    if facts.error:
        return facts.error
    times = f", {facts.restarts + 1} times" if facts.restarts else ""
    code = f" with exit code {facts.exit_code}" if facts.exit_code or not facts.running else ""
    return f"it ended{code} while it started{times}; its last lines:"


def _too_late(
    watch: Watch, waiting: list[ReplicaStatus], by_name: dict[str, Container], missing: frozenset[str], timeout: float
) -> StartFailed:
    if not waiting:
        name = min(missing)
        return StartFailed(name, f"its container was not there after {timeout:g} s", hint="gym ps")
    first = waiting[0]
    what = f"not healthy after {timeout:g} s" + (f" ({first.detail})" if first.detail else "") + "; its last lines:"
    return _failed(watch, by_name[first.container], what)


def _failed(watch: Watch, container: Container, what: str) -> StartFailed:
    name = replica_id(container, watch.plan)
    words = last_words(watch.client, container)
    hint = (
        f"More of it: gym logs {name}"
        if watch.plan.stack == "gym"
        else f"More of it: gym logs {name} --stack {watch.plan.stack}"
    )
    return StartFailed(name, what, words or "(it wrote nothing)", hint)
