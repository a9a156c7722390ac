"""The actors of one stack on a cluster, as a command finds them: its keeper, and by it all others."""

from __future__ import annotations

import getpass
import hashlib
import socket
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any, Final

from gym.errors import InfraError, UserError
from gym.plan.model import Observed, ObservedService, Plan
from gym.render.ray_orders import HEAD_NODE
from gym.runtime.lateness import unhealthy_before
from gym.runtime.ray_cluster import console_logs, node_files, room_on_nodes, server_actor, stack_keeper
from gym.runtime.ray_cluster.cluster import check_reachable, connect_ray
from gym.runtime.ray_cluster.cluster_note import forget_cluster, noted_cluster
from gym.runtime.ray_cluster.source_packs import SourcePack
from gym.runtime.runtime_names import read_choice
from gym.runtime.status import StackStatus
from gym.runtime.unknown_name import unknown

ANSWER_SECONDS: Final = 30.0
Look = dict[str, Any]


def namespace_of(home: Path) -> str:
    """Two people, or two folders, may call a stack the same."""
    who = f"{getpass.getuser()}@{socket.gethostname()}:{home.resolve()}"
    return f"gym-{home.name}-{hashlib.sha256(who.encode()).hexdigest()[:8]}"


class RayStack:
    """`RayStack.of(home)` connects; the keeper is looked up again for each command."""

    def __init__(self, ray: Any, namespace: str) -> None:
        self.ray = ray
        self.namespace = namespace

    @classmethod
    def of(cls, home: Path) -> RayStack:
        return cls(connect_ray(noted_cluster(home) or _asked_for(home)), namespace_of(home))

    @classmethod
    def to_start(cls, home: Path) -> RayStack:
        """Where its cluster answers no more, the stack went with it: it may start on another one."""
        try:
            check_reachable(noted_cluster(home))
        except InfraError:
            forget_cluster(home)
        return cls.of(home)

    def keeper(self) -> Any | None:
        try:
            return self.ray.get_actor(stack_keeper.KEEPER, namespace=self.namespace)
        except ValueError:
            return None

    def make_keeper(self) -> Any:
        """On the head node, which the cluster does not outlive; Ray recreates it where its worker is lost."""
        for module in (console_logs, node_files, room_on_nodes, server_actor, stack_keeper):
            self.ray.cloudpickle.register_pickle_by_value(module)
        tools = {name: getattr(node_files, name) for name in ("node_cache", "unpack", "make_toolkit", "logs_folder")}
        made = self.ray.remote(stack_keeper.StackKeeper).options(
            name=stack_keeper.KEEPER,
            namespace=self.namespace,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            max_task_retries=3,
            max_concurrency=stack_keeper.CONCURRENCY,
            num_cpus=0,
            resources=HEAD_NODE,
        )
        return made.remote(self.namespace, server_actor.ServerActor, tools)

    def ask(self, call: Any, seconds: float = ANSWER_SECONDS) -> Any:
        try:
            return self.ray.get(call, timeout=seconds)
        except self.ray.exceptions.GetTimeoutError as error:
            raise InfraError(
                f"the keeper of the stack on Ray has not answered for {seconds:g} s.", "How the cluster is: ray status"
            ) from error
        except self.ray.exceptions.RayActorError as error:
            what = f"an actor of the stack was lost: {str(error).splitlines()[0]}"
            raise InfraError(what, "How it is: gym ps") from error

    def look(self) -> Look | None:
        """None where nothing runs."""
        keeper = self.keeper()
        if keeper is None:
            return None
        seen: Look = self.ask(keeper.look.remote())
        return seen if seen["stack"] else None

    def bring(self, keeper: Any, packs: Iterable[SourcePack]) -> None:
        """What the cluster has not got yet."""
        by_key = {one.key: one.data for one in packs}
        for key in self.ask(keeper.missing.remote(list(by_key))):
            self.ask(keeper.store.remote(key, by_key[key]), 120.0)

    def actor(self, replica: str) -> Any:
        try:
            return self.ray.get_actor(replica, namespace=self.namespace)
        except ValueError as error:
            raise InfraError(f"{replica} has no actor on the cluster yet.", "How it is: gym ps") from error

    def read_log(self, replica: str, offset: int, tail: int) -> tuple[int, str]:
        """Nothing new of one that is lost just now."""
        try:
            found: tuple[int, str] = self.ray.get(self.actor(replica).read_log.remote(offset, tail), timeout=5)
        except (InfraError, self.ray.exceptions.RayError):
            return offset, ""
        return found

    def names(self) -> list[str]:
        """Also of a keeper that is gone."""
        found = self.ray.util.list_named_actors(all_namespaces=True)
        return [one["name"] for one in found if one["namespace"] == self.namespace]

    def end(self) -> bool:
        keeper = self.keeper()
        if keeper is not None:
            seen = self.ask(keeper.wanted.remote())
            self.ask(keeper.end.remote(), float(seen["drain_seconds"]) + 60)
        left = self.names()
        for name in left:
            self._kill(name)
        deadline = time.monotonic() + ANSWER_SECONDS
        while self.names() and time.monotonic() < deadline:
            time.sleep(0.05)
        room_on_nodes.remove_groups(self.ray, self.namespace)
        return bool(left)

    def _kill(self, name: str) -> None:
        try:
            self.ray.kill(self.ray.get_actor(name, namespace=self.namespace), no_restart=True)
        except (ValueError, self.ray.exceptions.RayError):
            return  # it has ended meanwhile


def _asked_for(home: Path) -> str:
    """What `--on ray://HOST:PORT` named; "" where it named none."""
    choice = read_choice(home)
    return choice.address if choice and choice.address != "ray://" else ""


def status_of(seen: Look) -> StackStatus:
    return StackStatus.read({**seen, "runtime": "ray"})


def observed_of(seen: Look) -> Observed:
    """What actors were made from, not what was asked for."""
    plan = Plan.model_validate(seen["plan"])
    digests: dict[str, set[str]] = {}
    for one in seen["replicas"]:
        digests.setdefault(one["instance"], set()).add(one.get("digest", ""))
    found = {}
    for one in plan.services:
        known = digests.get(one.name, {one.digest})
        digest = known.pop() if len(known) == 1 else ""
        parts = one.parts if digest == one.digest else {}
        found[one.name] = ObservedService(digest=digest, replicas=one.replicas, parts=parts)
    return Observed(services=found)


def chosen_replicas(seen: Look, names: tuple[str, ...]) -> list[str]:
    """Of each that was named, as an instance or by itself; all when none was."""
    by_instance: dict[str, list[str]] = {}
    for one in seen["replicas"]:
        by_instance.setdefault(one["instance"], []).append(one["replica"])
    every = [id for ids in by_instance.values() for id in ids]
    for name in names:
        if name not in by_instance and name not in every:
            raise unknown(name, by_instance, every)
    return list(dict.fromkeys(id for name in names for id in by_instance.get(name) or [name])) if names else every


def find_not_awaited(seen: Look | None, asked: Collection[str]) -> frozenset[str]:
    """See `unhealthy_before`."""
    replicas = {one["replica"]: one for one in seen["replicas"]} if seen else {}
    states = {id: one["state"] for id, one in replicas.items()}
    return unhealthy_before(states, {id: one.get("early_exits", 0) for id, one in replicas.items()}, asked)


def not_running(home: Path) -> UserError:
    return UserError(f"the stack in {home} does not run.", "Start it: gym up NAMES --on ray")
