"""A plan as the texts that a runtime would be given, of a stack that need not run."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from gym.plan import Plan, plan_to_text
from gym.plan.model import Service
from gym.render.compose import reach_host, render_compose, rewrite_urls
from gym.render.traefik import traefik_dynamic, traefik_static
from gym.runtime.compose.images import plan_images
from gym.runtime.compose.layout import compose_facts
from gym.runtime.compose.sealing import seal
from gym.runtime.sandbox import with_docker
from gym.venvs import cache_dir
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
    """What `gym up --runtime compose` writes, values of secrets replaced by their names."""
    reached, _ = reach_host(with_docker(plan))
    sealed = seal(reached, {path: rewrite_urls(value) for path, value in secrets.items()})
    with tempfile.TemporaryDirectory() as folder:
        images = plan_images(sealed.plan, Path(folder), cache_dir(os.environ))
    return render_compose(sealed.plan, compose_facts(sealed.plan, home, images.by_instance, images.base))
