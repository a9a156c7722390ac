"""The orders of a process beside an actor: first what it is to run, then how the stack is, at each change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from gym.errors import InfraError
from gym.plan.model import Plan, Service
from gym.render.launch_document import Address
from gym.runtime.local.stack_order import StackOrder
from gym.runtime.status import ReplicaStatus

Role = Literal["server", "router", "console"]


@dataclass(frozen=True)
class HostOrder:
    """One replica of a stack, on the node where its actor is."""

    role: Role
    replica: str
    plan: Plan
    home: Path
    log: Path
    ip: str
    namespace: str
    instance: str = ""
    peer_token: str = field(default="", repr=False)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def service(self) -> Service:
        found = self.plan.service(self.instance)
        if found is None:
            raise InfraError(f"the plan has no instance {self.instance}")
        return found

    def stack_order(self, *, pythons: Mapping[str, str], traefik: str = "") -> StackOrder:
        return StackOrder(
            plan=self.plan,
            secrets=dict(self.secrets),
            pythons=dict(pythons),
            environ=dict(self.environ),
            traefik=traefik,
        )


@dataclass(frozen=True)
class StackState:
    """How the stack is, as its keeper sees it."""

    generation: int
    plan: Plan  # which may have changed since the replica was ordered
    replicas: tuple[ReplicaStatus, ...]
    router: str
    console: str

    def replicas_of(self, instance: str) -> list[ReplicaStatus]:
        return [one for one in self.replicas if one.instance == instance and one.url]

    def addresses(self) -> dict[str, list[Address]]:
        found: dict[str, list[Address]] = {}
        for one in self.replicas:
            if one.url:
                found.setdefault(one.instance, []).append(url_to_address(one.url))
        return found


def read_host_order(message: Mapping[str, Any], environ: Mapping[str, str]) -> HostOrder:
    """`folder` is where this node has the server's files; the plan was made where the caller has them."""
    plan = Plan.model_validate(message["plan"])
    folder = message.get("folder")
    if folder:
        services = tuple(
            one.model_copy(update={"directory": Path(folder)}) if one.name == message["instance"] else one
            for one in plan.services
        )
        plan = plan.model_copy(update={"services": services})
    return HostOrder(
        role=message["role"],
        replica=message["id"],
        plan=plan,
        home=Path(message["home"]),
        log=Path(message["log"]),
        ip=message["ip"],
        namespace=message["namespace"],
        instance=message["instance"],
        peer_token=message["peer_token"],
        secrets=message["secrets"],
        environ={**environ, **message["environ"]},
    )


def read_state(message: Mapping[str, Any]) -> StackState:
    return StackState(
        generation=int(message["generation"]),
        plan=Plan.model_validate(message["plan"]),
        replicas=tuple(ReplicaStatus.read(one) for one in message["replicas"]),
        router=message["router"],
        console=message["console"],
    )


def url_to_address(url: str) -> Address:
    host, _, port = url.removeprefix("http://").rpartition(":")
    return host.strip("[]"), int(port)
