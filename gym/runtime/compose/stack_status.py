"""How a Compose stack is, as `gym ps` and commands that want its router ask: from its files and its engine's socket."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, count, islice
from pathlib import Path
from typing import Any, Final

from gym import labels
from gym.runtime.compose.containers import PROJECT, Container, in_order, statuses_of
from gym.runtime.compose.engine_reader import EngineReader, read_engine, unique
from gym.runtime.compose.plan_names import PlanNames, ServiceNames, read_names
from gym.runtime.compose.router_probe import RouterProbe
from gym.runtime.compose.stack_folder import StackFolder
from gym.runtime.status import ReplicaStatus, StackStatus

AT_ONCE: Final = 8


def read_status(home: Path) -> StackStatus | None:
    """Every container is inspected. None where no container is there."""
    folder = StackFolder(home.resolve())
    plan = _names(folder.saved_plan())
    engine = read_engine()
    ours = engine.containers(f"{labels.STACK_DIR}={folder.home}")
    others = engine.containers(f"{PROJECT}={folder.saved_project()}")  # of an override
    if plan is None or not (ours or others):
        return None
    probe = RouterProbe(plan, folder.read_token())
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda one: _replicas(engine, probe, one), unique([*ours, *others]))
        replicas = in_order(with_missing(plan, chain.from_iterable(found)))
    return StackStatus(stack=plan.stack, runtime="compose", router=probe.url, replicas=replicas)


def with_missing(plan: PlanNames, found: Iterable[ReplicaStatus]) -> list[ReplicaStatus]:
    """And those of which there is no container: none is made again until `gym scale` or `gym up` asks for it."""
    there = list(found)
    option = labels.stack_option(plan.stack)
    missing = [
        ReplicaStatus(one.name, replica, one.type, one.implementation, "exited", detail=f"no container (yet); {way}")
        for one in plan.services
        for way in [f"make it: gym scale {shlex.quote(one.name)}={one.replicas}{option}"]
        for replica in _missing(one, {each.replica for each in there if each.instance == one.name})
    ]
    return [*there, *missing]


def _missing(service: ServiceNames, there: Collection[str]) -> list[str]:
    """Replicas are not always numbered from 1."""
    named = (f"{service.slug}-{number}" for number in count(1))
    return list(islice((one for one in named if one not in there), max(0, service.replicas - len(there))))


def _replicas(engine: EngineReader, probe: RouterProbe, container: Container) -> list[ReplicaStatus]:
    answers = probe.answers(container)
    return statuses_of(container, probe.plan, facts=engine.inspect(container), answers=answers)


def _names(plan: dict[str, Any]) -> PlanNames | None:
    try:
        return read_names(plan)
    except (LookupError, TypeError):
        return None
