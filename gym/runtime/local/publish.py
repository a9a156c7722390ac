"""What a stack tells the world: the discovery document, the router's two files, the console's configuration, the plan.

Each is written whole or not at all, when it changed, or when something else damaged or removed it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from gym.files import write_atomically
from gym.plan.model import Plan, Service
from gym.render.console_document import console_document
from gym.render.traefik import traefik_dynamic, traefik_static
from gym.render.unused_certificate import FILE as UNUSED_CERTIFICATE
from gym.render.unused_certificate import unused_certificate
from gym.runtime.local.home import Home, folder_id
from gym.runtime.local.specs import DYNAMIC_FILE, DYNAMIC_FOLDER, STATIC_FILE, redacted_plan
from gym.runtime.status import ReplicaStatus
from gym.wire.discovery import Discovery, InstanceView, ReplicaView, replica_route
from gym.wire.stack_notes import REPLICAS, ReplicaNote, ReplicaNotes


class Publisher:
    """Remembers what it wrote last, so that an unchanged stack writes nothing."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._last = Discovery(stack="")
        self._texts: dict[Path, str] = {}
        self._missed: set[Path] = set()
        self._watched: int | None = None  # the router's folder, held open: no other gets its number of an inode
        self._routes: tuple[Plan, Discovery, str] | None = None  # what the router's text was made from
        self._routes_text = ""

    def publish(self, plan: Plan, replicas: Sequence[ReplicaStatus], *, router: str, console: str) -> None:
        """Called at every change of a replica's state."""
        if not self._home.path.is_dir():
            raise FileNotFoundError(f"{self._home.path} is gone")
        views = instance_views(plan.services, replicas)
        found = Discovery(stack=plan.stack, generation=self._last.generation, router=router, instances=views)
        if found != self._last:
            self._last = found.model_copy(update={"generation": self._last.generation + 1})
        self._put(self._home.discovery, self._last.model_dump_json())
        self._put(self._home.notes / REPLICAS, ReplicaNotes(_notes(replicas)).model_dump_json())
        routes = (plan, self._last, console)
        if routes != self._routes:  # 10 ms and more, and most changes of a state change no route
            self._routes, self._routes_text = routes, traefik_dynamic(plan, self._last, console=console)
        self._put(self._home.traefik / DYNAMIC_FOLDER / DYNAMIC_FILE, self._routes_text)

    def write_plan(self, plan: Plan) -> None:
        """Written before anything starts. The console re-reads its own by itself."""
        directory = self._home.traefik / DYNAMIC_FOLDER
        access_log = str(self._home.path / "access.log")
        static = traefik_static(plan, directory=str(directory), access_log=access_log)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._watched is None:
            self._watched = os.open(directory, os.O_RDONLY)
        self._put(self._home.traefik / STATIC_FILE, static)
        self._put(directory / UNUSED_CERTIFICATE, unused_certificate())
        self._put(self._home.plan, _json(redacted_plan(plan)))
        self._put(self._home.console, _json(console_document(plan)))

    def keep(self, *paths: Path) -> None:
        """Remembers files that others wrote and the stack needs, so that `repair` can restore them."""
        for path in paths:
            with contextlib.suppress(OSError, UnicodeDecodeError):
                self._texts[path] = path.read_text("utf-8")

    def resume(self, generation: int) -> None:
        """Continue the generation of an earlier supervisor: readers ignore an older one."""
        self._last = self._last.model_copy(update={"generation": generation})

    def repair(self) -> list[Path]:
        """Rewrite the files that differ from what was written; which they were. A missing file is rewritten only at the
        second look: a user who removes the whole folder should not find new files in it."""
        gone = {path for path in self._texts if not path.exists()}
        fixed = [path for path in self._texts if path not in gone - self._missed and self._repair(path)]
        self._missed = gone - set(fixed)
        return fixed

    def has_other_folder(self) -> bool:
        """The router's folder was replaced since the last look: what the router watches is gone."""
        directory = self._home.traefik / DYNAMIC_FOLDER
        if self._watched is None or folder_id(directory) in (None, folder_id(self._watched)):
            return False
        os.close(self._watched)
        self._watched = os.open(directory, os.O_RDONLY)
        return True

    def withdraw(self) -> None:
        self._texts.clear()
        self._home.discovery.unlink(missing_ok=True)
        (self._home.traefik / DYNAMIC_FOLDER / DYNAMIC_FILE).unlink(missing_ok=True)

    def _put(self, path: Path, text: str) -> None:
        self._texts[path] = text
        write_atomically(path, text)

    def _repair(self, path: Path) -> bool:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        return write_atomically(path, self._texts[path])


def instance_views(services: Iterable[Service], replicas: Iterable[ReplicaStatus]) -> dict[str, InstanceView]:
    of_instance: dict[tuple[str, str], list[ReplicaStatus]] = {}
    for one in replicas:
        of_instance.setdefault((one.instance, one.type), []).append(one)
    return {one.name: _instance_view(one, of_instance.get((one.name, one.type), [])) for one in services}


def _instance_view(service: Service, own: Sequence[ReplicaStatus]) -> InstanceView:
    return InstanceView(
        type=service.type,
        implementation=service.implementation,
        replicas=tuple(_replica_view(service, one) for one in own),
        digest=service.digest,
        state=_state_of(own),
        sdk=service.launch == "sdk",
        strict=service.strict,
    )


def _replica_view(service: Service, one: ReplicaStatus) -> ReplicaView:
    route = replica_route(service.type, one.replica)
    return ReplicaView(id=one.replica, url=one.url, healthy=one.state == "healthy", route=route)


def _state_of(replicas: Sequence[ReplicaStatus]) -> str:
    healthy = sum(one.state == "healthy" for one in replicas)
    if replicas and healthy == len(replicas):
        return "healthy"
    if healthy:
        return "degraded"
    return "starting" if any(one.state == "starting" for one in replicas) else "down"


def _json(tree: Mapping[str, Any]) -> str:
    return orjson.dumps(tree, option=orjson.OPT_INDENT_2).decode()


def _notes(replicas: Iterable[ReplicaStatus]) -> dict[str, ReplicaNote]:
    return {
        one.replica: ReplicaNote(pid=one.pid or 0, restarts=one.restarts, why=one.last_end, at=one.last_end_at)
        for one in replicas
    }
