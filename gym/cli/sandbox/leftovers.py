"""Sandboxes to show: those of a stack that runs, else whatever carries our labels on this machine's engine."""

from __future__ import annotations

from gym import labels
from gym.cli.sandbox.broker_calls import list_sandboxes
from gym.cli.sandbox.broker_channel import find_broker
from gym.cli.stack_session import StackSession, find_session
from gym.engine import connect
from gym.errors import InfraError, UserError
from gym.plan import SANDBOX
from gym.runtime.compose import find_engine
from gym.runtime.compose.containers import Container, list_containers
from gym.wire.sandbox import SandboxInfo
from gym.wire.stack_names import project_name


def find_leftovers(stack: str) -> tuple[list[SandboxInfo], str]:
    """And in a few words whose they are."""
    session = _known_session(stack)
    if session is None:
        return labelled_sandboxes(labels.SANDBOX), "of all stacks on this machine's engine"
    if _has_broker(session):
        return list_sandboxes(find_broker(session)), f"of stack '{stack}'"
    own = f"{labels.STACK}={project_name(session.home.name, session.home.resolve())}"
    return labelled_sandboxes(labels.SANDBOX, own), f"left of stack '{stack}', whose broker does not run"


def labelled_sandboxes(*wanted: str) -> list[SandboxInfo]:
    """Containers, alive or not; none where no engine answers."""
    engine = find_engine()
    if isinstance(engine, InfraError):
        return []
    with connect(engine.host) as client:
        return [_info(one) for one in list_containers(client, *wanted)]


def _known_session(stack: str) -> StackSession | None:
    try:
        return find_session(stack)
    except UserError:
        return None


def _has_broker(session: StackSession) -> bool:
    try:
        status = session.runtime.status(session.home)
    except InfraError:
        return False
    return status is not None and any(one.type == SANDBOX for one in status.replicas)


def _info(container: Container) -> SandboxInfo:
    found = container.labels
    expires = found.get(labels.SANDBOX_EXPIRES, "")
    return SandboxInfo(
        id=found[labels.SANDBOX],
        state="running" if container.state == "running" else "lost",
        image=container.image,
        instance=found.get(labels.INSTANCE, ""),
        rollout=found.get(labels.SANDBOX_ROLLOUT, ""),
        stack=found.get(labels.STACK, ""),
        provider="docker",
        expires=float(expires) if expires.replace(".", "", 1).isdigit() else 0.0,
        why_lost="" if container.state == "running" else container.state,
    )
