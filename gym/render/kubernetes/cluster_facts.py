"""What a plan does not say of a cluster, and what its parts are called there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from pydantic import Field

from gym import labels
from gym.plan.model import Plan, Value
from gym.render.compose import ROUTER_IMAGE
from gym.render.wanted_stack import wanted_service
from gym.wire.stack_names import PORT, ROUTER, service_name
from gym.wire.wanted import Wanted, WantedRouter, WantedService

OUTSIDE_PORT: Final = 11001  # the router's entry point for callers from outside, which asks for the token
SECRETS: Final = "gym-secrets"
TOKEN: Final = "gym_token"
USER: Final = 10001


class KubernetesFacts(Value):
    namespace: str
    base_image: str
    images: dict[str, str]  # instance, or sidecar -> image
    router_image: str = ROUTER_IMAGE
    secrets: dict[str, tuple[str, ...]] = Field(default_factory=dict)  # instance -> names of its secrets
    secret_digests: dict[str, str] = Field(default_factory=dict)  # short ones, by name
    broker_config: str = ""  # what GYM_SANDBOX_CONFIG names
    shards: int = 4

    def digest_of(self, names: Iterable[str]) -> dict[str, str]:
        """A label of the pods that mount them; none where there are none."""
        found = "-".join(self.secret_digests.get(name, "") for name in names)[:63].strip("-")
        return {labels.SECRETS: found} if found else {}

    @property
    def sandboxes(self) -> str:
        """Their namespace: who may start pods there may not in the stack's own."""
        return f"{self.namespace}-sandboxes"


class ClusterWanted(Wanted):
    """Replicas by the names that a StatefulSet gives its pods, below its headless Service."""

    @property
    def router_names(self) -> tuple[str, ...]:
        return (ROUTER,)

    def own_replica(self, service: WantedService, number: int) -> str:
        return f"{service.host}-{number}.{service.host}"


def host_of(slug: str) -> str:
    """The name of a Service begins with a letter."""
    name = service_name(slug, "")
    return name if name[0].isalpha() else f"s-{name}"


def namespace_of(stack: str) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", stack.lower()).strip("-")[:40].strip("-")
    return name if name == "gym" or name.startswith("gym-") else f"gym-{name}" if name else "gym"


def cluster_wanted(plan: Plan) -> ClusterWanted:
    """As those see it who come by `kubectl port-forward`."""
    return ClusterWanted(
        stack=plan.stack,
        project="",
        url=f"http://127.0.0.1:{plan.router.port}",
        router=WantedRouter(**plan.router.model_dump()),
        services=tuple(wanted_service(one, host_of(one.slug)) for one in plan.services),
    )


def url_of(name: str) -> str:
    return f"http://{name}:{PORT}"
