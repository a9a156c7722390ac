"""The plan of a stack as a frozen value: it prints, diffs and tests, and no runtime is needed to make one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from gym.config.model import ContainerFacts, SidecarSpec
from gym.wire.sandbox import Grant, ProviderName
from gym.wire.server_types import ServerType

Launch = Literal["sdk", "script", "image"]
Action = Literal["create", "replace", "scale", "keep", "remove"]


class Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Service(Value):
    """One instance as a runtime sees it."""

    name: str
    slug: str  # lower case, digits and dashes: fit for DNS, Compose, cookies and file names; unique in the plan
    type: ServerType
    implementation: str
    launch: Launch
    directory: Path | None = None
    image_digest: str = ""  # of the packed image that runs instead of the folder
    entrypoint: str = "app.py"
    requirements_digest: str = ""  # "" when the SDK alone is enough
    extras: tuple[str, ...] = ()  # of the SDK, that the stack's settings ask for
    python: str = ""  # the version asked for, or an interpreter's path; "" where any will do
    fields: dict[str, Any] = Field(default_factory=dict)
    needs: tuple[str, ...] = ()  # instances it talks to
    replicas: int = 1
    container: ContainerFacts = ContainerFacts()
    sandbox: Grant | None = None
    source_digest: str = ""  # of the files that the server runs from
    parts: dict[str, str] = Field(default_factory=dict)  # short digests by what they cover, so that a diff can say why
    digest: str = ""  # of all of the above: what decides keep or replace
    process: str = ""  # that it shares with others, where its runtime lets it; "" for one of its own

    @property
    def own_replicas(self) -> int:
        """Those that share with no other instance: of an instance in a shared process all but the first."""
        return self.replicas - bool(self.process and self.replicas)

    @property
    def strict(self) -> bool:
        """A verifier that is configured to be so."""
        return self.type == "resources_servers" and self.fields.get("strict") is True

    def replica_ids(self) -> tuple[str, ...]:
        return tuple(f"{self.slug}-{number}" for number in range(1, self.replicas + 1))


class RouterPlan(Value):
    """Where the outside entry point listens. A token is asked for as soon as that is not loopback."""

    host: str = "127.0.0.1"
    port: int = 11000
    needs_token: bool = False


class SandboxPlan(Value):
    """The broker that makes sandboxes for those who hold a grant."""

    provider: ProviderName = "auto"
    settings: dict[str, Any] = Field(default_factory=dict)
    grants: dict[str, Grant]  # by instance
    parts: dict[str, str] = Field(default_factory=dict)
    digest: str = ""


class Sidecar(Value):
    """A program beside an instance, which alone reaches it."""

    instance: str
    instance_slug: str
    slug: str  # as an instance's; the name that the instance knows it by, too
    spec: SidecarSpec
    parts: dict[str, str] = Field(default_factory=dict)
    digest: str = ""

    @property
    def name(self) -> str:
        return f"{self.instance}.{self.spec.name}"


class Plan(Value):
    stack: str
    services: tuple[Service, ...]
    sidecars: tuple[Sidecar, ...] = ()
    router: RouterPlan = RouterPlan()
    sandbox: SandboxPlan | None = None  # None: no instance asked for sandboxes
    settings: dict[str, Any] = Field(default_factory=dict)
    drain_seconds: float = 30.0

    def service(self, name: str) -> Service | None:
        return next((one for one in self.services if one.name == name), None)

    def sidecars_of(self, instance: str) -> tuple[Sidecar, ...]:
        return tuple(one for one in self.sidecars if one.instance == instance)


class ObservedService(Value):
    digest: str
    replicas: int
    parts: dict[str, str] = Field(default_factory=dict)  # empty where the runtime keeps only the digest
    beside: frozenset[str] | None = None  # the other instances in its process; None where the runtime does not say


class Observed(Value):
    """What runs now, as far as a plan cares. Runtimes make one; `diff` reads it."""

    services: dict[str, ObservedService] = Field(default_factory=dict)


class Change(Value):
    action: Action
    service: str
    why: str = ""
