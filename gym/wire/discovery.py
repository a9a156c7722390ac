"""The discovery document: which instances a stack has, and where each replica listens."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from gym.wire.rows import ServerType


class View(BaseModel):
    model_config = ConfigDict(frozen=True)


class ReplicaView(View):
    id: str  # "mcqa-1"
    url: str  # "http://127.0.0.1:43127", reachable from inside the stack
    healthy: bool = True


class InstanceView(View):
    type: ServerType
    implementation: str
    replicas: tuple[ReplicaView, ...] = ()
    digest: str = ""
    state: str = "healthy"  # starting | healthy | degraded | down


class Discovery(View):
    stack: str
    generation: int = 0  # grows with every change
    router: str = ""  # "http://127.0.0.1:11000"
    instances: dict[str, InstanceView] = {}
