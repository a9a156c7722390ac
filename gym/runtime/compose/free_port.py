"""Where a stack's router listens: the port that was asked for, a free one, or the one that it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gym import labels
from gym.errors import UserError
from gym.plan.model import Plan
from gym.runtime.compose.containers import Container, publisher_of
from gym.runtime.local.listeners import listen_for_router

if TYPE_CHECKING:
    import docker


def with_free_port(client: docker.DockerClient, plan: Plan, earlier: Plan | None, before: list[Container]) -> Plan:
    """A stack that runs keeps its port; one that starts gets the port it asked for, or a free one, or an error."""
    wanted = plan.router
    if before and earlier and wanted.port in (0, earlier.router.port) and wanted.host == earlier.router.host:
        return plan.model_copy(update={"router": earlier.router.model_copy(update={"needs_token": wanted.needs_token})})
    if wanted.port and (other := publisher_of(client, wanted.port)):
        folder = other.labels.get(labels.STACK_DIR, "")
        whose = f" of the stack in {folder}" if folder else ""
        raise UserError(
            f"port {wanted.port} on {wanted.host} is in use by the container {other.name}{whose}.",
            "Stop it (a stack: `gym down` where it was started), or choose another port: gym up ... --port 0",
        )
    with listen_for_router(wanted.host, wanted.port) as listener:
        port = listener.getsockname()[1]
    return plan.model_copy(update={"router": wanted.model_copy(update={"port": port})})
