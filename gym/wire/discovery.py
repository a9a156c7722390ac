"""The discovery document: which instances a stack has, and where each replica listens."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from gym.labels import REPLICA_PREFIX
from gym.wire.server_types import ServerType


class View(BaseModel):
    model_config = ConfigDict(frozen=True)


class ReplicaView(View):
    id: str  # "mcqa-1"
    url: str  # "http://127.0.0.1:43127", reachable from inside the stack
    healthy: bool = True
    route: str = ""  # "/s/~mcqa-agent-1": below the router, to this replica alone; agents have one


def replica_route(type: ServerType, id: str) -> str:
    """A collector behind the router has to know which replica has its rollout, to ask whether it is still there."""
    return REPLICA_PREFIX + id if type == "responses_api_agents" else ""


class InstanceView(View):
    type: ServerType
    implementation: str
    replicas: tuple[ReplicaView, ...] = ()
    digest: str = ""
    state: str = "healthy"  # starting | healthy | degraded | down
    sdk: bool = False  # it answers /healthz at any time, also while it works
    strict: bool = False  # a verifier in its strict mode
    image: str = ""  # digest of the packed image that it runs


class Discovery(View):
    stack: str
    generation: int = 0  # grows with every change
    router: str = ""  # "http://127.0.0.1:11000"
    closed: bool = False  # replicas answer their own stack alone: others go by the router
    instances: dict[str, InstanceView] = {}
