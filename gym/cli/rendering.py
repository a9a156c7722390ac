"""A plan as the texts that a runtime would be given, of a stack that need not run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from gym.plan import Plan, plan_to_text
from gym.plan.model import Service
from gym.render.traefik import traefik_dynamic, traefik_static
from gym.runtime.compose import ComposeRuntime
from gym.runtime.compose.layout import compose_text, state_of
from gym.wire.discovery import Discovery, InstanceView, ReplicaView, replica_route

Target = Literal["plan", "traefik", "compose"]


def render_plan(plan: Plan, target: Target, *, secrets: Mapping[str, str], home: Path) -> str:
    if target == "traefik":
        return _traefik(plan)
    return _compose(plan, secrets, home) if target == "compose" else plan_to_text(plan)


def _traefik(plan: Plan) -> str:
    """Both files, as two YAML documents. Real addresses are known once replicas run; here each has its own name."""
    views = {one.name: _view(one) for one in plan.services}
    found = Discovery(stack=plan.stack, instances=views)
    static = traefik_static(plan, directory="dynamic")
    return (
        f"# static.yml\n{static}---\n# dynamic/stack.yml\n{traefik_dynamic(plan, found, console='http://console:8000')}"
    )


def _view(service: Service) -> InstanceView:
    replicas = tuple(
        ReplicaView(id=one, url=f"http://{one}:8000", route=replica_route(service.type, one))
        for one in service.replica_ids()
    )
    return InstanceView(type=service.type, implementation=service.implementation, replicas=replicas)


def _compose(plan: Plan, secrets: Mapping[str, str], home: Path) -> str:
    """What `gym up --runtime compose` writes; the port may be another one there, where this one is taken."""
    home = home.resolve()
    prepared = ComposeRuntime().prepare(home, plan, secrets)
    return compose_text(home, prepared.plan, state_of(home, prepared))
