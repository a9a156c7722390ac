"""What a user means by a word: an instance, a replica or a container of a stack."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from gym.errors import InfraError, UserError
from gym.plan.model import Plan
from gym.runtime.compose.containers import Container, replica_id


def choose(containers: list[Container], plan: Plan | None, names: tuple[str, ...]) -> list[Container]:
    """Instances, replicas or containers by name; all of them when none is named."""
    if not containers:
        raise InfraError("None of this stack's containers is there.", "Start it: gym up NAMES")
    if not names:
        return containers
    by_name: dict[str, list[Container]] = {}
    for one in containers:
        seats = ({seat.instance, replica_id(seat, plan)} for seat in one.seats)
        for name in {one.service, one.name, replica_id(one, plan)}.union(*seats):
            by_name.setdefault(name, []).append(one)
    _check_there(names, by_name, plan)
    _check_known(names, by_name)
    return list({one.id: one for name in names for one in by_name[name]}.values())


def _check_there(names: tuple[str, ...], known: Mapping[str, object], plan: Plan | None) -> None:
    for one in plan.services if plan else ():
        if one.name in names and one.name not in known and one.replicas:
            what = f"`{one.name}` has no container: it was removed, or never made."
            raise InfraError(what, f"Make it: gym scale {one.name}={one.replicas}")


def choose_running(containers: list[Container], plan: Plan | None, name: str) -> Container:
    """The first of its containers that runs."""
    chosen = choose(containers, plan, (name,))
    running = next((one for one in chosen if one.state == "running"), None)
    if running is None:
        raise InfraError(f"No container of {name} runs: it is {chosen[0].state}.", f"Start it: gym restart {name}")
    return running


def check_instances(plan: Plan, replicas: Mapping[str, int]) -> None:
    _check_known(replicas, {one.name: () for one in plan.services})


def _check_known(names: tuple[str, ...] | Mapping[str, int], known: Mapping[str, object]) -> None:
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3) or sorted(known)
            raise UserError(f"`{name}` is not in this stack.", f"There is {', '.join(near)}.")
