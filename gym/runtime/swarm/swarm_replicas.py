"""The replicas of a stack as the Swarm sees them: a service each, and its tasks, of which the newest one counts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gym import labels
from gym.plan.model import Plan, Value
from gym.render.swarm import REPLICA
from gym.runtime.compose.containers import Container, status_of, timestamp
from gym.runtime.compose.layout import Layout
from gym.runtime.compose.router_probe import router_url
from gym.runtime.status import ReplicaState, ReplicaStatus, StackStatus
from gym.runtime.swarm.swarm_engine import SwarmSeen
from gym.runtime.user_state import owner
from gym.wire.stack_names import CONSOLE, ROUTER, replica_host

if TYPE_CHECKING:
    import docker

ENDED: Final = frozenset({"failed", "rejected", "complete", "orphaned"})
# Not where it may run: a registry that was asked changes that, and replaces nothing.
COMPARED: Final = ("ContainerSpec", "Resources", "ForceUpdate")
Task = Mapping[str, Any]


class SwarmReplica(Value):
    """`container` is how it is called; the rest is of its newest task."""

    name: str  # of the service
    container: Container
    is_current: bool  # a task of the service as it is now wanted runs, and no older one does
    failures: int = 0  # of tasks of the service as it is now wanted
    restarts: int = 0
    task: str = ""  # the state of the newest
    error: str = ""
    node: str = ""
    container_id: str = ""
    started_at: float = 0.0


def find_replicas(client: docker.DockerClient, layout: Layout) -> list[SwarmReplica]:
    api: Any = client.api
    services = api.services(filters={"label": f"{labels.STACK_DIR}={layout.home}"})
    if not services:
        return []
    tasks: dict[str, list[Task]] = {one["ID"]: [] for one in services}
    for task in api.tasks(filters={"service": [*tasks]}):
        tasks.setdefault(task["ServiceID"], []).append(task)
    project = layout.read_state().project
    found = [_replica(one, tasks[one["ID"]], project) for one in services]
    return sorted(found, key=lambda one: (one.container.service, one.container.number))


def homes_on_swarm(client: docker.DockerClient) -> list[Path]:
    """Of this user's stacks; none where this engine is not a manager of a Swarm."""
    if not (client.info().get("Swarm") or {}).get("ControlAvailable"):
        return []
    api: Any = client.api
    found = api.services(filters={"label": [labels.STACK_DIR, f"{labels.OWNER}={owner()}"]})
    return sorted({Path(one["Spec"]["Labels"][labels.STACK_DIR]) for one in found})


def status_on_swarm(layout: Layout, plan: Plan, found: Iterable[SwarmReplica], swarm: SwarmSeen) -> StackStatus:
    """Running to the Swarm is not enough: the console has to know it as one that answers."""
    healthy = layout.healthy_urls()
    replicas = tuple(_status(one, plan, swarm, healthy) for one in found)
    return StackStatus(stack=plan.stack, runtime="swarm", router=router_url(plan), replicas=replicas)


def _replica(service: Mapping[str, Any], tasks: list[Task], project: str) -> SwarmReplica:
    spec = service["Spec"]
    about: dict[str, str] = spec["Labels"]
    newest_first = sorted(tasks, key=lambda one: str(one["CreatedAt"]), reverse=True)
    wanted = [one for one in newest_first if one["DesiredState"] in ("running", "ready")]
    newest = next(iter(wanted or newest_first), None)
    running = [one for one in newest_first if one["Status"]["State"] == "running" and one["DesiredState"] == "running"]
    current = [one for one in newest_first if _is_of(one, spec["TaskTemplate"])]
    status: Mapping[str, Any] = newest["Status"] if newest else {}
    number = about.get(REPLICA, "")
    slug = spec["Name"].removeprefix(f"{project}_").removesuffix(f"-{number}" if number else "")
    container = Container(
        id=service["ID"],
        name=replica_host(project, slug, int(number or 1)),
        state="running" if running else "restarting" if any(map(_has_ended, tasks)) else "created",
        service=slug,
        number=int(number or 1),
        image=spec["TaskTemplate"]["ContainerSpec"]["Image"].partition("@")[0],
        labels=about,
        created=timestamp(service["CreatedAt"]),
    )
    return SwarmReplica(
        name=spec["Name"],
        container=container,
        is_current=[one["ID"] for one in running] == [one["ID"] for one in current[:1]],
        failures=sum(map(_has_ended, current)),
        restarts=sum(map(_has_ended, tasks)),
        task=str(status.get("State", "new")),
        error=str(status.get("Err") or _last_error(newest_first)),
        node=str(newest.get("NodeID", "")) if newest else "",
        container_id=str((status.get("ContainerStatus") or {}).get("ContainerID", "")),
        started_at=timestamp(str(status.get("Timestamp", ""))),
    )


def _is_of(task: Task, template: Mapping[str, Any]) -> bool:
    return all(task["Spec"].get(key) == template.get(key) for key in COMPARED)


def _has_ended(task: Task) -> bool:
    return task["Status"]["State"] in ENDED


def _last_error(newest_first: list[Task]) -> str:
    return next((str(one["Status"]["Err"]) for one in newest_first if one["Status"].get("Err")), "")


def _status(one: SwarmReplica, plan: Plan, swarm: SwarmSeen, healthy: frozenset[str]) -> ReplicaStatus:
    state = _state(one, healthy)
    node = swarm.nodes.get(one.node, "")
    update: dict[str, Any] = {
        "state": state,
        "container": one.container.name,
        "restarts": one.restarts,
        "uptime_seconds": max(0.0, time.time() - one.started_at) if one.task == "running" else 0.0,
        "detail": (f"on {node}" if len(swarm.nodes) > 1 and node else "") if state == "healthy" else _why(one),
    }
    return replace(status_of(one.container, plan), **update)


def _state(one: SwarmReplica, healthy: frozenset[str]) -> ReplicaState:
    if one.container.state != "running":
        return "restarting" if one.restarts else "starting"
    if not one.is_current:
        return "restarting"
    if one.container.service in (ROUTER, CONSOLE) or one.container.url in healthy:
        return "healthy"
    return "unhealthy" if time.time() - one.started_at > 10 else "starting"


def _why(one: SwarmReplica) -> str:
    if one.task == "running":
        return "no answer on /healthz" if one.is_current else "the one before it ends"
    if one.container.state == "running":
        return f"the one before it serves: the new one is {one.task}{f' ({one.error})' if one.error else ''}"
    return one.error or one.task
