"""What a user means by a word: an instance, a replica or a container of a stack."""

from __future__ import annotations

from collections.abc import Mapping

from gym.errors import InfraError
from gym.plan.model import Plan
from gym.runtime.compose.containers import Container, replica_id
from gym.runtime.unknown_name import no_replica, unknown
from gym.wire.stack_names import CONSOLE, ROUTER, SANDBOX


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
    if strange := [name for name in names if name not in by_name]:
        raise unknown(strange[0], _instances(containers, plan), by_name)
    return list({one.id: one for name in names for one in by_name[name]}.values())


def _check_there(names: tuple[str, ...], known: Mapping[str, object], plan: Plan | None) -> None:
    for one in plan.services if plan else ():
        if one.name in names and one.name not in known:
            if not one.replicas:
                raise no_replica(one.name)
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
    known = [one.name for one in plan.services]
    if strange := [name for name in replicas if name not in known]:
        raise unknown(strange[0], known)


def _instances(containers: list[Container], plan: Plan | None) -> list[str]:
    """As the plan has them, services beside them and what every stack has at the end."""
    planned = [*(one.name for one in plan.services), *(one.name for one in plan.sidecars)] if plan else []
    own = [ROUTER, CONSOLE, SANDBOX]
    there = {name for one in containers for name in one.instances}
    return [*(planned or sorted(there - {*own})), *(name for name in own if name in there)]
