"""What `gym ps` has to know of a plan: names and addresses, read without the models of a whole plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from gym.plan.model import Plan


class ServiceNames(NamedTuple):
    name: str
    slug: str
    implementation: str
    process: str = ""
    replicas: int = 1
    type: str = ""


class ListeningPort(NamedTuple):
    port: int


class SidecarNames(NamedTuple):
    name: str
    slug: str
    spec: ListeningPort


class RouterAddress(NamedTuple):
    host: str
    port: int


class PlanNames(NamedTuple):
    """Named as the fields of a Plan are."""

    stack: str
    router: RouterAddress
    services: tuple[ServiceNames, ...]
    sidecars: tuple[SidecarNames, ...]

    def service(self, name: str) -> ServiceNames | None:
        return next((one for one in self.services if one.name == name), None)


KnownPlan: TypeAlias = "Plan | PlanNames"


def read_names(plan: Mapping[str, Any]) -> PlanNames:
    """Of a plan as it was written down."""
    router = plan["router"]
    return PlanNames(
        plan["stack"],
        RouterAddress(router["host"], router["port"]),
        tuple(
            ServiceNames(
                one["name"],
                one["slug"],
                one["implementation"],
                one.get("process", ""),
                one["replicas"],
                one["type"],
            )
            for one in plan["services"]
        ),
        tuple(_sidecar(one) for one in plan.get("sidecars", ())),
    )


def _sidecar(one: Mapping[str, Any]) -> SidecarNames:
    spec = one["spec"]
    return SidecarNames(f"{one['instance']}.{spec['name']}", one["slug"], ListeningPort(spec["port"]))
