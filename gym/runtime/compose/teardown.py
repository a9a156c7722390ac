"""Down means gone: containers first, then networks, then volumes, all found by label, with or without our files."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from gym import labels
from gym.errors import InfraError
from gym.runtime.compose.containers import PROJECT, Container, list_containers
from gym.runtime.sandbox_leftovers import HAND_OVER
from gym.runtime.user_state import owner
from gym.wire.stack_names import SANDBOX, SERVICE

if TYPE_CHECKING:
    import docker

AT_ONCE: Final = 8
GRACE_SECONDS: Final = 10
LOOK_SECONDS: Final = 0.1
LOOKS: Final = 20  # what is still there then cannot be removed


def remove_stack(client: docker.DockerClient, home: str, project: str, *, grace: float, quiet: float = 0.0) -> bool:
    """Whatever carries this home's label or this project's, also what an override added. True when there was any.

    An engine goes on creating what an interrupted Compose asked of it: with `quiet`, nothing was there for so long.
    """
    found = removed = _remove_once(client, home, project, grace)
    deadline = time.monotonic() + quiet
    looks = 1
    while time.monotonic() < deadline or (removed and looks < LOOKS):
        if not removed:
            time.sleep(LOOK_SECONDS)
        removed = _remove_once(client, home, project, grace)
        looks += 1
        if removed and looks < LOOKS:
            deadline = time.monotonic() + quiet
    _remove_sandboxes(client, [project])
    return found


def _remove_once(client: docker.DockerClient, home: str, project: str, grace: float) -> bool:
    projects = {one.labels.get(PROJECT, "") for one in list_containers(client, f"{labels.STACK_DIR}={home}")} - {""}
    filters = [f"{labels.STACK_DIR}={home}", *(f"{PROJECT}={name}" for name in sorted(projects | {project}))]
    return _remove(client, filters, grace)


def remove_all(client: docker.DockerClient) -> tuple[str, ...]:
    """Every stack of this user, wherever it was started; the homes of those that were there."""
    mine = f"{labels.OWNER}={owner()}"
    containers = [one for one in list_containers(client, mine) if labels.STACK_DIR in one.labels]
    homes = sorted({one.labels[labels.STACK_DIR] for one in containers})
    projects = sorted({one.labels.get(PROJECT, "") for one in containers} - {""})
    _remove(client, [*(f"{PROJECT}={name}" for name in projects), f"{labels.STACK_DIR}"], GRACE_SECONDS, also=mine)
    _remove_sandboxes(client, projects)
    return tuple(homes)


def _remove_sandboxes(client: docker.DockerClient, projects: Iterable[str]) -> None:
    """What a broker that was killed could not remove: its label is the project's name."""
    for project in projects:
        _remove(client, [f"{labels.STACK}={project}"], 0.0)


def stop_containers(client: docker.DockerClient, containers: Iterable[Container], seconds: float) -> None:
    """SIGTERM to all at once, SIGKILL to those still there after `seconds`, then remove."""
    _in_parallel(lambda one: _end(client, one, stop_seconds(one, seconds)), containers)


def hand_over_sandboxes(client: docker.DockerClient, containers: Iterable[Container]) -> None:
    """Tells a broker that another one follows: its sandboxes stay for that one."""
    for one in containers:
        if one.labels.get(labels.TYPE) == SANDBOX and one.state == "running":
            _tolerant(lambda: client.api.kill(one.id, signal=HAND_OVER))  # noqa: B023


def restart_containers(client: docker.DockerClient, containers: Iterable[Container], seconds: float) -> None:
    """Ends them as `stop_containers` does, and restarts them."""
    _in_parallel(lambda one: client.api.restart(one.id, timeout=round(stop_seconds(one, seconds))), containers)


def stop_seconds(container: Container, seconds: float) -> float:
    """A broker removes every sandbox before it ends."""
    return seconds + (labels.BROKER_SECONDS - GRACE_SECONDS if container.labels.get(labels.TYPE) == SANDBOX else 0.0)


def _remove(client: docker.DockerClient, filters: list[str], grace: float, *, also: str = "") -> bool:
    both = [[one, also] if also and not one.startswith(PROJECT) else [one] for one in filters]
    containers = {one.id: one for each in both for one in list_containers(client, *each)}
    used = [one for one in containers.values() if one.labels.get(labels.TYPE) in (SANDBOX, SERVICE)]
    # Servers may still use them while they drain; the broker removes all sandboxes before it ends.
    for group in ([one for one in containers.values() if one not in used], used):
        stop_containers(client, group, grace)
    networks = {one["Id"]: one for each in both for one in client.api.networks(filters={"label": each})}
    volumes = {
        one["Name"]: one for each in both for one in client.api.volumes(filters={"label": each})["Volumes"] or []
    }
    _in_parallel(lambda one: _remove_network(client, one), networks.values())
    _in_parallel(lambda one: _tolerant(lambda: client.api.remove_volume(one["Name"], force=True)), volumes.values())
    return bool(containers or networks or volumes)


def _end(client: docker.DockerClient, container: Container, seconds: float) -> None:
    """What an override file added has no requests to finish: its own grace period, or the engine's, is enough."""
    timeout = round(seconds) if labels.STACK_DIR in container.labels else None
    if container.state in ("running", "restarting", "paused"):
        _tolerant(lambda: client.api.stop(container.id, timeout=timeout))
    _tolerant(lambda: client.api.remove_container(container.id, v=True, force=True))


def _remove_network(client: docker.DockerClient, network: dict[str, Any]) -> None:
    """A network with a container on it cannot be removed: one that is not ours is only disconnected."""
    import docker.errors  # noqa: PLC0415

    try:
        details = client.api.inspect_network(network["Id"])
    except docker.errors.NotFound:  # another command removed it just now
        return
    for endpoint in details.get("Containers") or {}:
        _tolerant(lambda: client.api.disconnect_container_from_network(endpoint, network["Id"], force=True))  # noqa: B023
    _tolerant(lambda: client.api.remove_network(network["Id"]))


def _tolerant(action: Callable[[], object]) -> None:
    """Gone already is as good as removed, and so is a removal by another command just now."""
    import docker.errors  # noqa: PLC0415

    try:
        with suppress(docker.errors.NotFound):
            action()
    except docker.errors.APIError as error:
        if error.status_code != 409:
            raise InfraError(
                f"The engine could not remove something of the stack: {error.explanation}", "gym down"
            ) from error


def _in_parallel(action: Callable[[Any], None], items: Iterable[Any]) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for done in [pool.submit(action, one) for one in items]:
            done.result()
