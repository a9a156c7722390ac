"""What a stack tells the world: the discovery document, the router's two files, the console's configuration, the plan.

Each is written whole or not at all, and only when it changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from gym.plan.model import Plan, Service
from gym.render.console import console_document
from gym.render.files import write_atomically
from gym.render.traefik import traefik_dynamic, traefik_static
from gym.runtime.base import ReplicaStatus
from gym.runtime.local.home import Home
from gym.runtime.local.specs import DYNAMIC_FILE, DYNAMIC_FOLDER, STATIC_FILE, redacted_plan
from gym.wire.discovery import Discovery, InstanceView, ReplicaView


class Publisher:
    """Remembers what it wrote last, so that an unchanged stack writes nothing."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._last = Discovery(stack="")

    def publish(self, plan: Plan, replicas: Sequence[ReplicaStatus], *, router: str, console: str) -> None:
        """Called at every change of a replica's state."""
        if not self._home.path.is_dir():
            raise FileNotFoundError(f"{self._home.path} is gone")
        views = {one.name: instance_view(one, replicas) for one in plan.services}
        found = Discovery(stack=plan.stack, generation=self._last.generation, router=router, instances=views)
        if found != self._last:
            self._last = found.model_copy(update={"generation": self._last.generation + 1})
            write_atomically(self._home.discovery, self._last.model_dump_json())
        dynamic = self._home.traefik / DYNAMIC_FOLDER / DYNAMIC_FILE
        write_atomically(dynamic, traefik_dynamic(plan, self._last, console=console))

    def write_plan(self, plan: Plan) -> None:
        """Written before anything starts. The console reads its own again by itself."""
        directory = self._home.traefik / DYNAMIC_FOLDER
        access_log = str(self._home.path / "access.log")
        static = traefik_static(plan, directory=str(directory), access_log=access_log)
        directory.mkdir(mode=0o700, exist_ok=True)
        write_atomically(self._home.traefik / STATIC_FILE, static)
        write_atomically(self._home.plan, _json(redacted_plan(plan)))
        write_atomically(self._home.console, _json(console_document(plan)))

    def withdraw(self) -> None:
        self._home.discovery.unlink(missing_ok=True)
        (self._home.traefik / DYNAMIC_FOLDER / DYNAMIC_FILE).unlink(missing_ok=True)


def instance_view(service: Service, replicas: Iterable[ReplicaStatus]) -> InstanceView:
    own = [one for one in replicas if one.instance == service.name and one.type == service.type]
    return InstanceView(
        type=service.type,
        implementation=service.implementation,
        replicas=tuple(ReplicaView(id=one.replica, url=one.url, healthy=one.state == "healthy") for one in own),
        digest=service.digest,
        state=_state_of(own),
    )


def _state_of(replicas: Sequence[ReplicaStatus]) -> str:
    healthy = sum(one.state == "healthy" for one in replicas)
    if replicas and healthy == len(replicas):
        return "healthy"
    if healthy:
        return "degraded"
    return "starting" if any(one.state == "starting" for one in replicas) else "down"


def _json(tree: Mapping[str, Any]) -> str:
    return orjson.dumps(tree, option=orjson.OPT_INDENT_2).decode()
