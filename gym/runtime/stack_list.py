"""All stacks of this user on this machine and its engine, wherever they were started, and how each is now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from gym import labels
from gym.engine import connect, find_engine
from gym.errors import GymError, InfraError
from gym.runtime.compose.containers import Container, state_of
from gym.runtime.compose.engine_reader import EngineReader
from gym.runtime.identity import is_alive
from gym.runtime.local import LocalRuntime
from gym.runtime.local.home import Home
from gym.runtime.local.pid_file import StackNote, find_processes, forget_note, read_notes
from gym.runtime.ray_cluster.cluster_note import CLUSTER, forget_cluster, lost_homes
from gym.runtime.results_folder import folder_of
from gym.runtime.runtime_names import SLURM_FOLDER, SLURM_JOB, RuntimeName
from gym.runtime.status import ReplicaState, StackStatus
from gym.runtime.user_state import KnownHome, known_homes, owner
from gym.wire.stack_names import ROUTER

if TYPE_CHECKING:
    import docker

AT_ONCE: Final = 8
# There while a cluster has the stack.
NOTES: Final[Mapping[str, str]] = {"slurm": f"{SLURM_FOLDER}/{SLURM_JOB}", "ray": CLUSTER}
LOST: Final = "its folder is gone"
KILLED: Final = "its supervisor was killed"


@dataclass(frozen=True)
class FoundStack:
    """One line of `gym ls`."""

    stack: str
    home: Path
    runtime: RuntimeName
    port: int | None = None
    since: float = 0.0  # seconds since the epoch
    state: str = ""
    lost: bool = False  # its folder is gone

    @property
    def folder(self) -> Path:
        """Where `gym up` was typed."""
        return folder_of(self.home)


@dataclass(frozen=True)
class StackList:
    stacks: tuple[FoundStack, ...]
    no_engine: str = ""  # why the engine was not asked


def list_stacks() -> StackList:
    """Sorted by name and folder. An engine that does not answer hides its own stacks alone."""
    local = [*find_local_stacks(), *find_cluster_stacks()]
    facts = find_engine(compose=False)
    if isinstance(facts, InfraError):
        return StackList(stacks=_sorted(local), no_engine=facts.what)
    engine = EngineReader(facts.host)
    return StackList(stacks=_sorted([*local, *find_compose_stacks(engine), *find_swarm_stacks(engine)]))


def find_local_stacks() -> list[FoundStack]:
    """A note whose processes are all gone, by pid and start time, is removed: its supervisor was killed, or the machine
    was switched off."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [one for one in pool.map(_look_at, read_notes()) if one is not None]


def find_cluster_stacks() -> list[FoundStack]:
    """Of Slurm, those that have a job, which ends with its folder; of Ray, those with a cluster."""
    noted = [(one, one.home / NOTES[one.runtime]) for one in known_homes() if one.runtime in NOTES]
    there = [found for one, note in noted if note.exists() and (found := _on_cluster(one, note))]
    return [*there, *(found for home in lost_homes() if (found := _lost_on_ray(home)))]


def find_compose_stacks(engine: EngineReader) -> list[FoundStack]:
    by_home: dict[str, list[Container]] = {}
    for one in engine.containers(labels.STACK_DIR, f"{labels.OWNER}={owner()}"):
        by_home.setdefault(one.labels[labels.STACK_DIR], []).append(one)
    return [_of_containers(Path(home), found) for home, found in by_home.items()]


def find_swarm_stacks(engine: EngineReader) -> list[FoundStack]:
    if not engine.is_swarm_manager():
        return []
    from gym.runtime.swarm.swarm_replicas import homes_on_swarm  # noqa: PLC0415 (for those who have a Swarm)

    with connect(engine.host) as client:
        return [_on_swarm(client, home) for home in homes_on_swarm(client)]


def _on_cluster(known: KnownHome, note: Path) -> FoundStack | None:
    """A Ray cluster that has no such stack is another one, at the same address."""
    try:
        status = _cluster_status(known)
        state = _count([one.state for one in status.replicas]) if status else ""
    except GymError as error:
        status, state = None, error.what
    if known.runtime == "ray" and not state:
        return None
    return FoundStack(
        stack=known.stack,
        home=known.home,
        runtime=known.runtime,
        port=urlsplit(status.router).port if status and status.router else None,
        since=note.stat().st_mtime if note.exists() else 0.0,
        state=state,
    )


def _lost_on_ray(home: Path) -> FoundStack | None:
    """A cluster that does not answer may have it or not."""
    from gym.runtime.ray_cluster.ray_stack import RayStack  # noqa: PLC0415 (for those who have a cluster)

    state = LOST
    try:
        if not RayStack.of(home).names():
            forget_cluster(home)
            return None
    except InfraError:
        return None
    except GymError as error:
        state = f"{LOST}; {error.what}"
    return FoundStack(stack=home.name, home=home, runtime="ray", state=state, lost=True)


def _cluster_status(known: KnownHome) -> StackStatus | None:
    if known.runtime == "ray":
        from gym.runtime.ray_cluster.ray_runtime import RayRuntime  # noqa: PLC0415 (for those who have a cluster)

        return RayRuntime().status(known.home)
    from gym.runtime.slurm.slurm_runtime import SlurmRuntime  # noqa: PLC0415 (as above)

    return SlurmRuntime().status(known.home)


def _on_swarm(client: docker.DockerClient, home: Path) -> FoundStack:
    from gym.runtime.compose.layout import Layout  # noqa: PLC0415 (as above)
    from gym.runtime.swarm.swarm_engine import find_swarm  # noqa: PLC0415 (as above)
    from gym.runtime.swarm.swarm_replicas import find_replicas, status_on_swarm  # noqa: PLC0415 (as above)

    layout, lost = Layout(home), not home.is_dir()
    plan, found = layout.read_plan(), find_replicas(client, layout)
    status = status_on_swarm(layout, plan, found, find_swarm(client)) if plan else None
    return FoundStack(
        stack=plan.stack if plan else home.name,
        home=home,
        runtime="swarm",
        port=plan.router.port if plan else None,
        since=min((one.container.created for one in found), default=0.0),
        state=LOST if lost else _count([one.state for one in status.replicas]) if status else "",
        lost=lost,
    )


def _look_at(note: StackNote) -> FoundStack | None:
    lost = not note.home.is_dir()
    owned = any(is_alive(one) for one in (note.record.supervisor, note.record.warden) if one is not None)
    if not owned and not find_processes(Home(note.home), note.record):
        forget_note(Home(note.home))
        return None
    status = LocalRuntime().status(note.home) if owned and not lost else None
    state = _count([one.state for one in status.replicas]) if status else "starting" if owned else KILLED
    router = status.router if status else note.record.router
    return FoundStack(
        stack=note.record.stack or note.home.name,
        home=note.home,
        runtime="local",
        port=urlsplit(router).port if router else None,
        since=note.since,
        state=LOST if lost else state,
        lost=lost,
    )


def _of_containers(home: Path, found: list[Container]) -> FoundStack:
    lost = not home.is_dir()
    published = [port for one in found if one.service == ROUTER for port in one.published]
    return FoundStack(
        stack=found[0].labels.get(labels.STACK) or home.name,
        home=home,
        runtime="compose",
        port=published[0] if published else None,
        since=min(one.created for one in found),
        state=LOST if lost else _count([state_of(one) for one in found for _ in one.seats]),
        lost=lost,
    )


def _count(states: list[ReplicaState]) -> str:
    """`healthy`, or how many of how many are, and what the others are."""
    others = Counter(one for one in states if one != "healthy")
    if not others:
        return "healthy"
    if len(others) == 1 and others.total() == len(states):
        return next(iter(others))
    counted = ", ".join(f"{count} {state}" for state, count in sorted(others.items()))
    return f"{len(states) - others.total()} of {len(states)} healthy, {counted}"


def _sorted(found: list[FoundStack]) -> tuple[FoundStack, ...]:
    return tuple(sorted(found, key=lambda one: (one.stack, str(one.home))))
