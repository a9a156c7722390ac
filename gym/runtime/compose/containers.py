"""The containers of a stack as the engine sees them now: found by label, read in one call, turned into our words."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import orjson

from gym import labels
from gym.runtime.compose.plan_names import KnownPlan
from gym.runtime.status import ReplicaState, ReplicaStatus
from gym.wire.stack_names import CONSOLE, PORT, ROUTER, SANDBOX, shared_port

if TYPE_CHECKING:
    import docker

    from gym.plan.model import Observed

LabelsOfImage = Callable[[str], dict[str, str]]
PROJECT: Final = "com.docker.compose.project"
SERVICE: Final = "com.docker.compose.service"
KILLED: Final = 137
NUMBER: Final = "com.docker.compose.container-number"
HASH: Final = "com.docker.compose.config-hash"
STATES: Final[dict[str, ReplicaState]] = {
    "created": "starting",
    "running": "starting",
    "restarting": "restarting",
    "paused": "unhealthy",
    "removing": "stopping",
    "exited": "exited",
    "dead": "exited",
}
ENDINGS: Final = {
    labels.EXIT_BLOCKED: f"ended itself: {labels.BLOCKED}; its log names the line",
    128 + signal.SIGPROF: f"{labels.BLOCKED} in code that lets nothing else run; its log has the stack",
}


@dataclass(frozen=True)
class Container:
    """One line of the engine's list."""

    id: str
    name: str
    state: str  # the engine's word: created, running, restarting, exited, ...
    health: str = ""  # starting, healthy, unhealthy; empty without a health check
    service: str = ""
    number: int = 1
    image: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    created: float = 0.0  # seconds since the epoch
    published: tuple[int, ...] = ()  # ports of the host
    seat: str = ""  # the one instance that is meant, of several in it

    @property
    def instance(self) -> str:
        return self.seat or self.labels.get(labels.INSTANCE, self.service)

    @property
    def digest(self) -> str:
        return self._digests().get(self.seat, "") if self.seat else self.labels.get(labels.DIGEST, "")

    @property
    def seats(self) -> tuple[Container, ...]:
        """Itself, or once for each of the instances that share it."""
        return tuple(replace(self, seat=name) for name in self._digests()) or (self,)

    @property
    def instances(self) -> frozenset[str]:
        return frozenset(one.instance for one in self.seats)

    def _digests(self) -> dict[str, str]:
        """Of instances that share it, by name."""
        text = self.labels.get(labels.INSTANCES, "")
        return dict(orjson.loads(text)) if text else {}

    @property
    def config_hash(self) -> str:
        """Of everything that Compose would make it from: the file, overrides, the image's name."""
        return self.labels.get(HASH, "")

    @property
    def url(self) -> str:
        return f"http://{self.name}:{shared_port(self.seat) if self.seat else PORT}"


@dataclass(frozen=True)
class Inspected:
    """What only an inspection tells."""

    state: str = ""  # of the same moment as the reasons; empty where it was not read
    health: str = ""
    restarts: int = 0
    running: bool = False  # then it has no exit code, whatever the engine says
    exit_code: int = 0
    out_of_memory: bool = False
    started_at: float = 0.0
    error: str = ""
    health_output: str = ""


def list_containers(client: docker.DockerClient, *filters: str) -> list[Container]:
    """Containers that carry all of the labels, running or not, in a stable order."""
    return read_list(
        client.api.containers(all=True, filters={"label": list(filters)}), partial(_labels_of_image, client)
    )


def read_list(listed: Iterable[dict[str, Any]], labels_of_image: LabelsOfImage) -> list[Container]:
    ours = [_container(one) for one in listed if _is_ours(labels_of_image, one)]
    return sorted(ours, key=lambda one: (one.service, one.number, one.name))


def publisher_of(client: docker.DockerClient, port: int) -> Container | None:
    """The container that has this port of the host."""
    listed = client.api.containers(filters={"publish": str(port)})
    return _container(listed[0]) if listed else None


def inspect(client: docker.DockerClient, container: Container) -> Inspected | None:
    """None when it is gone by now."""
    import docker.errors  # noqa: PLC0415

    try:
        return read_inspection(client.api.inspect_container(container.id))
    except docker.errors.NotFound:
        return None


def read_inspection(facts: Mapping[str, Any]) -> Inspected:
    state = facts["State"]
    checks = (state.get("Health") or {}).get("Log") or []
    failed = [one for one in checks if one.get("ExitCode")]
    return Inspected(
        state=state.get("Status", ""),
        health=str((state.get("Health") or {}).get("Status", "")).replace("none", ""),
        restarts=facts.get("RestartCount", 0),
        running=state.get("Status") == "running",
        exit_code=state.get("ExitCode", 0),
        out_of_memory=bool(state.get("OOMKilled")),
        started_at=timestamp(state.get("StartedAt", "")),
        error=state.get("Error", ""),
        health_output=str(failed[-1].get("Output", "")).strip() if failed else "",
    )


def state_of(container: Container, *, answers: bool = True) -> ReplicaState:
    """`answers` speaks for a container that has no health check of its own."""
    if container.state != "running":
        return STATES.get(container.state, "unhealthy")
    if container.health:
        return {"healthy": "healthy", "unhealthy": "unhealthy"}.get(container.health, "starting")  # type: ignore[return-value]
    return "healthy" if answers else "starting"


def statuses_of(
    container: Container, plan: KnownPlan | None, *, facts: Inspected | None = None, answers: bool = True
) -> list[ReplicaStatus]:
    """Of each instance in it."""
    return [status_of(one, plan, facts=facts, answers=answers) for one in container.seats]


def in_order(replicas: Iterable[ReplicaStatus]) -> tuple[ReplicaStatus, ...]:
    """By name and number, also where several share a container."""

    def key(one: ReplicaStatus) -> tuple[str, int]:
        name, _, number = one.replica.rpartition("-")
        return (name, int(number)) if number.isdecimal() else (one.replica, 0)

    return tuple(sorted(replicas, key=key))


def status_of(
    container: Container, plan: KnownPlan | None, *, facts: Inspected | None = None, answers: bool = True
) -> ReplicaStatus:
    service = plan.service(container.instance) if plan else None
    facts = _facts_of_seat(container, facts)
    container = as_inspected(container, facts)
    return ReplicaStatus(
        instance=container.instance,
        replica=replica_id(container, plan),
        type=container.labels.get(labels.TYPE, "") or container.service,
        implementation=service.implementation if service else container.image.partition(":")[0],
        state="unhealthy" if says_blocked(container, facts) else state_of(container, answers=answers),
        url=_url_of(container, plan),
        container=container.name,
        restarts=facts.restarts if facts else 0,
        uptime_seconds=max(0.0, time.time() - facts.started_at)
        if facts and facts.started_at and container.state == "running"
        else 0.0,
        detail=detail_of(container, facts, plan),
    )


def _facts_of_seat(container: Container, facts: Inspected | None) -> Inspected | None:
    """The health check of a shared container names the port of each instance that is not well; another one is well, or
    it is the container that is not."""
    if facts is None or not container.seat or not facts.health_output:
        return facts
    lines = [line.partition(": ") for line in facts.health_output.splitlines()]
    if not all(port.isdecimal() for port, _, _ in lines):
        return facts
    own = "\n".join(what for port, _, what in lines if port == str(shared_port(container.seat)))
    health = facts.health if own else facts.health.replace("unhealthy", "healthy")
    return replace(facts, health_output=own, health=health)


def _url_of(container: Container, plan: KnownPlan | None) -> str:
    sidecar = next((one for one in plan.sidecars if one.name == container.instance), None) if plan else None
    if sidecar is not None:
        return f"{sidecar.slug}:{sidecar.spec.port}"
    return "" if container.service == ROUTER else container.url


def as_inspected(container: Container, facts: Inspected | None) -> Container:
    """State and reason are read together: the list is a moment older."""
    if facts is None or not facts.state:
        return container
    return replace(container, state=facts.state, health=facts.health)


def says_blocked(container: Container, facts: Inspected | None) -> bool:
    """The last check found it so; the engine itself waits for three in a row."""
    return container.state == "running" and facts is not None and labels.BLOCKED in facts.health_output


def replica_id(container: Container, plan: KnownPlan | None) -> str:
    """`mcqa-1`, as a plan calls it; what there is one of has no number."""
    service = plan.service(container.instance) if plan else None
    if service is None and container.service in (ROUTER, CONSOLE, SANDBOX):
        return container.service
    if service is None:
        return f"{container.service}-{container.number}"
    first = 0 if container.seat or not service.process else 1  # that one is in the shared container
    return f"{service.slug}-{1 if container.seat else container.number + first}"


def detail_of(container: Container, facts: Inspected | None, plan: KnownPlan | None = None) -> str:
    """Why it is not healthy, in a few words; for what is not restarted by itself, with the command that does it."""
    if facts is None or (state_of(container) == "healthy" and not says_blocked(container, facts)):
        return ""
    why = _why(container, facts)
    if container.state != "exited":
        return why
    option = labels.stack_option(plan.stack if plan else "")
    return f"{why}; start it: gym restart {replica_id(container, plan)}{option}"


def _why(container: Container, facts: Inspected) -> str:
    if facts.out_of_memory:
        return "killed: it needed more memory than it may have"
    if facts.error:
        return facts.error
    if container.state == "exited" and facts.exit_code == KILLED:
        return "ended by SIGKILL (docker kill, or out of memory)"
    if container.state in ("exited", "restarting", "dead"):
        return ENDINGS.get(facts.exit_code, f"exit code {facts.exit_code}")
    if container.state == "paused":
        return f"paused; docker unpause {container.name} wakes it"
    return facts.health_output.splitlines()[-1] if facts.health_output else ""


def observed(containers: Iterable[Container]) -> Observed:
    """What a plan is compared with; a container that does not run counts as none."""
    from gym.plan.model import Observed, ObservedService  # noqa: PLC0415  (`gym ps` compares nothing)

    services: dict[str, ObservedService] = {}
    for container in containers:
        if container.service in (ROUTER, CONSOLE) or container.state not in ("running", "restarting"):
            continue
        for one in container.seats:
            if not one.digest:
                continue
            beside = container.instances - {one.instance}
            earlier = services.get(one.instance)
            count = earlier.replicas + 1 if earlier else 1
            digest = one.digest if earlier is None or earlier.digest == one.digest else ""  # mixed: replace
            beside |= earlier.beside or frozenset() if earlier else frozenset()
            services[one.instance] = ObservedService(digest=digest, replicas=count, beside=beside)
    return Observed(services=services)


def _is_ours(labels_of_image: LabelsOfImage, listed: dict[str, Any]) -> bool:
    """Labels of an image become those of whatever is made from it, a step of a build among them. Names do not, and no
    image carries what Compose alone tells of a container."""
    found = listed.get("Labels") or {}
    name = (listed.get("Names") or [""])[0].lstrip("/")
    if name == "-".join(found.get(one, "") for one in (PROJECT, SERVICE, NUMBER)) or labels.names_sandbox(name, found):
        return True
    return bool(found.get(HASH)) and found[HASH] != labels_of_image(listed["ImageID"]).get(HASH)


def _labels_of_image(client: docker.DockerClient, image: str) -> dict[str, str]:
    import docker.errors  # noqa: PLC0415

    try:
        return dict(client.images.get(image).labels)
    except docker.errors.NotFound:
        return {}


def _number(text: str) -> int:
    """A sandbox's label may be blank, or whatever its image says."""
    return int(text) if text.isascii() and text.isdigit() else 1


def _container(listed: dict[str, Any]) -> Container:
    found = listed.get("Labels") or {}
    health = re.search(r"\((?:health: )?(starting|healthy|unhealthy)\)", listed.get("Status", ""))
    return Container(
        id=listed["Id"],
        name=(listed.get("Names") or [listed["Id"][:12]])[0].lstrip("/"),
        state=listed.get("State", ""),
        health=health[1] if health else "",
        service=found.get(SERVICE, ""),
        number=_number(found.get(NUMBER, "")),
        image=listed.get("Image", ""),
        labels=found,
        created=float(listed.get("Created") or 0),
        published=tuple(sorted({one["PublicPort"] for one in listed.get("Ports") or () if one.get("PublicPort")})),
    )


def timestamp(text: str) -> float:
    """RFC 3339 with nanoseconds, always UTC; the engine's zero time means none, and so does what is not a time."""
    if not re.match(r"\d{4}-\d\d-\d\dT", text) or text.startswith("0001"):
        return 0.0
    # Not time.strptime: it imports a module when it is called, here in threads, and a Ctrl-C may leave imports locked.
    return datetime.fromisoformat(text[:19]).replace(tzinfo=UTC).timestamp()
