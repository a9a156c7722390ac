"""From started to healthy: watch the containers of a stack until every one answers, or say which does not and why."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

from gym.errors import NotUp, UserError
from gym.plan.model import Plan
from gym.runtime.compose.containers import (
    Container,
    Inspected,
    as_inspected,
    detail_of,
    in_order,
    inspect,
    list_containers,
    replica_id,
    state_of,
    statuses_of,
)
from gym.runtime.compose.router_probe import RouterProbe
from gym.runtime.lateness import MAX_EARLY_EXITS, Late, ends_at_each_start, not_in_time
from gym.runtime.status import OnStatus, ReplicaStatus, StackStatus

if TYPE_CHECKING:
    import docker

LOOK_SECONDS: Final = 0.08
LAST_LINES: Final = 20
YOUNG_SECONDS: Final = 3.0  # to inspect six containers takes as much of the engine's time as to start a server
AT_ONCE: Final = 8
UNNAMED: Final = re.compile(r"^[0-9a-f]{12}_")


@dataclass(frozen=True)
class StackHealth:
    """What is watched: one stack, as the plan wants it."""

    client: docker.DockerClient
    plan: Plan
    filters: tuple[str, ...]
    token: str = ""

    @property
    def router(self) -> RouterProbe:
        return RouterProbe(self.plan, self.token)

    def containers(self) -> list[Container]:
        """Without those that Compose is about to rename: a replacement is there before its predecessor's name is."""
        return [one for one in list_containers(self.client, *self.filters) if not UNNAMED.match(one.name)]

    def status(self, containers: Iterable[Container]) -> StackStatus:
        """Only those that are not healthy are inspected, and none that has hardly begun: nothing is known of it yet."""
        wanted = list(containers)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            replicas = in_order(chain.from_iterable(pool.map(self._replicas, wanted)))
        return StackStatus(stack=self.plan.stack, runtime="compose", router=self.router.url, replicas=replicas)

    def _replicas(self, container: Container) -> list[ReplicaStatus]:
        answers = self.router.answers(container)
        known = state_of(container, answers=answers) == "healthy" or _begins(container)
        facts = None if known else inspect(self.client, container)
        return statuses_of(container, self.plan, facts=facts, answers=answers)


def _begins(container: Container) -> bool:
    return container.state in ("created", "running") and time.time() - container.created < YOUNG_SECONDS


def wait_until_healthy(
    watch: StackHealth,
    expected: frozenset[str],
    on_status: OnStatus,
    on_change: Callable[[list[Container]], None],
    *,
    timeout: float,
) -> StackStatus:
    """Until all of `expected` (names of containers) are; `on_change` gets each look that brings a change."""
    deadline = time.monotonic() + timeout
    seen: StackStatus | None = None
    while True:
        containers = watch.containers()
        if expected and not containers:
            raise UserError(f"Stack '{watch.plan.stack}' was stopped meanwhile.", "Start it: gym up NAMES")
        status = watch.status(containers)
        if status != seen:
            on_change(containers)
            on_status(status)
            seen = status
        by_name = {one.name: one for one in containers}
        waiting = [one for one in status.replicas if one.container in expected and one.state != "healthy"]
        missing = expected - by_name.keys()
        if not waiting and not missing:
            wait_for_routes(watch, {instance for name in expected for instance in by_name[name].instances}, deadline)
            return status
        for one in waiting:
            _give_up_on_early_exits(watch, by_name, one, status, waiting)
        if time.monotonic() > deadline:
            late = list({one.container: by_name[one.container] for one in waiting}.values())
            raise _too_late(watch, late, missing, len(expected), timeout)
        time.sleep(LOOK_SECONDS)


def wait_for_routes(watch: StackHealth, instances: set[str], deadline: float) -> None:
    """The router reads its files a moment after they were written; a user who reads `healthy` may call at once.

    Only of the instances that were waited for: another one may have no replica that runs, and so no route.
    """
    waiting = [one for one in watch.plan.services if one.name in instances]
    while waiting and time.monotonic() < deadline:
        waiting = [one for one in waiting if not watch.router.is_routed(one)]
        if waiting:
            time.sleep(LOOK_SECONDS / 2)


def retry_now(client: docker.DockerClient, containers: Iterable[Container]) -> None:
    """Restarts at once what the engine would restart later, so that its count of restarts is of this `up`."""
    import docker.errors  # noqa: PLC0415

    for one in containers:
        if one.state == "restarting":
            with suppress(docker.errors.APIError):
                client.api.restart(one.id, timeout=0)


def last_words(client: docker.DockerClient, container: Container, since: float = 0.0) -> str:
    """`since` is in seconds of the epoch."""
    import docker.errors  # noqa: PLC0415

    try:
        raw: bytes = client.api.logs(container.id, stdout=True, stderr=True, tail=LAST_LINES, since=since or None)
    except docker.errors.APIError:
        return ""
    return raw.decode("utf-8", "replace").strip()


def _give_up_on_early_exits(
    watch: StackHealth,
    by_name: Mapping[str, Container],
    one: ReplicaStatus,
    status: StackStatus,
    waiting: Sequence[ReplicaStatus],
) -> None:
    """One that ends at each start is reported at its third end, not at the deadline; everything stays up."""
    if one.state not in ("restarting", "exited") and one.restarts < MAX_EARLY_EXITS:
        return
    container = by_name[one.container]
    facts = inspect(watch.client, container)
    if facts is None or facts.running:
        return  # the next look may find it ended, and then the engine knows how
    container = as_inspected(container, facts)
    early_exits = facts.restarts + (container.state == "exited")
    if early_exits < MAX_EARLY_EXITS and container.state != "exited":
        return
    healthy = sum(other.state == "healthy" for other in status.replicas)
    others = [by_name[name] for name in dict.fromkeys(other.container for other in waiting) if name != one.container]
    late = [_late_of(watch, container, facts)]
    late += [_late_of(watch, other, inspect(watch.client, other)) for other in others]
    raise ends_at_each_start(late, healthy=healthy, stack=watch.plan.stack)


def _late_of(watch: StackHealth, container: Container, facts: Inspected | None) -> Late:
    container = as_inspected(container, facts)
    said = facts and last_words(watch.client, container, facts.started_at)  # each start says the same
    return Late(
        replica_id(container, watch.plan),
        state_of(container, answers=False),
        max(0.0, time.time() - facts.started_at) if facts and facts.started_at else 0.0,
        detail_of(container, facts),
        said or last_words(watch.client, container),
        facts.restarts + (container.state == "exited") if facts else 0,
    )


def _too_late(
    watch: StackHealth, waiting: list[Container], missing: frozenset[str], total: int, timeout: float
) -> NotUp:
    late = [_late_of(watch, one, inspect(watch.client, one)) for one in waiting]
    late += [Late(name, "not there", timeout) for name in sorted(missing)]
    return not_in_time(late, total=total, timeout=timeout, stack=watch.plan.stack)
