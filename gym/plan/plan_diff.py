"""What has to happen for a plan to be what runs: one change a service, each with its reason. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from gym.plan.model import Change, Observed, ObservedService, Plan, SandboxPlan, Service, Sidecar
from gym.plan.shared_processes import shared_processes
from gym.wire.stack_names import ROUTER, SANDBOX


def diff(plan: Plan, observed: Observed) -> tuple[Change, ...]:
    """Changes in the plan's order, then the removals. `observed.services` is keyed by instance name."""
    names = {one.name for one in plan.services} | {one.name for one in plan.sidecars}
    planned = names | ({SANDBOX} if plan.sandbox else set())
    broker = [_single_change(SANDBOX, plan.sandbox, observed.services.get(SANDBOX))] if plan.sandbox else []
    beside = [_single_change(one.name, one, observed.services.get(one.name)) for one in plan.sidecars]
    changes = _with_others(plan, observed, [_change(one, observed.services.get(one.name)) for one in plan.services])
    gone = [Change(action="remove", service=name, why="no longer in the stack") for name in sorted(observed.services)]
    return (*broker, *beside, *changes, *(one for one in gone if one.service not in planned))


def _single_change(name: str, wanted: SandboxPlan | Sidecar, running: ObservedService | None) -> Change:
    """Of what there is one of."""
    if running is None:
        return Change(action="create", service=name, why="new")
    if running.digest != wanted.digest:
        return Change(action="replace", service=name, why=_what_changed(wanted, running))
    return Change(action="keep", service=name)


def _change(service: Service, running: ObservedService | None) -> Change:
    if running is None:
        return Change(action="create", service=service.name, why="new")
    if running.digest != service.digest:
        return Change(action="replace", service=service.name, why=_what_changed(service, running))
    if running.replicas != service.replicas:
        return Change(action="scale", service=service.name, why=f"{running.replicas} -> {service.replicas} replicas")
    return Change(action="keep", service=service.name)


def _with_others(plan: Plan, observed: Observed, changes: Iterable[Change]) -> list[Change]:
    """Instances of one process are replaced together, also when one joins or leaves them."""
    own = list(changes)
    replaced = frozenset(one.service for one in own if one.action == "replace")
    beside = {
        one.name: frozenset(other.name for other in members if other is not one)
        for members in shared_processes(plan).values()
        for one in members
    }
    return [
        with_reason(one, _why_by_others(beside.get(one.service, frozenset()), observed, one.service, replaced))
        for one in own
    ]


def with_reason(change: Change, why: str) -> Change:
    if not why or change.action not in ("keep", "scale"):
        return change
    return Change(action="replace", service=change.service, why=f"{why}, {change.why}" if change.why else why)


def _why_by_others(wanted: frozenset[str], observed: Observed, name: str, replaced: frozenset[str]) -> str:
    """What happens to the other instances in its process; "" where nothing does."""
    running = observed.services.get(name)
    if running is None or running.beside is None:
        return ""
    joined, left = wanted - running.beside, running.beside - wanted
    changed = wanted & running.beside & replaced
    words = (("its process gets", joined), ("its process loses", left), ("its process is replaced for", changed))
    return ", ".join(f"{what} {_some(sorted(names))}" for what, names in words if names)


def _some(names: list[str]) -> str:
    return f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else names[0]


def _what_changed(service: Service | SandboxPlan | Sidecar, running: ObservedService) -> str:
    if not running.parts:
        return "changed"
    names = [*service.parts, *(name for name in running.parts if name not in service.parts)]
    changed = [name for name in names if service.parts.get(name) != running.parts.get(name)]
    return f"{', '.join(changed)} changed" if changed else "changed"


def changes_between(former: Plan, plan: Plan) -> tuple[Change, ...]:
    """The same for two plans; what stays as it is, is left out."""
    running = {
        one.name: ObservedService(digest=one.digest, replicas=one.replicas, parts=one.parts) for one in former.services
    }
    running |= {one.name: ObservedService(digest=one.digest, replicas=1, parts=one.parts) for one in former.sidecars}
    if former.sandbox is not None:
        running[SANDBOX] = ObservedService(digest=former.sandbox.digest, replicas=1, parts=former.sandbox.parts)
    return tuple(one for one in diff(plan, Observed(services=running)) if one.action != "keep")


def router_change(former: Plan | None, plan: Plan) -> tuple[Change, ...]:
    """Of a stack that runs: callers of the old address are lost. Port 0 keeps whatever the router has."""
    if former is None or 0 in (former.router.port, plan.router.port):
        return ()
    before, now = (f"{one.router.host}:{one.router.port}" for one in (former, plan))
    return () if before == now else (Change(action="replace", service=ROUTER, why=f"{before} -> {now}"),)


def differs_in_sources_alone(former: Plan, plan: Plan) -> bool:
    """Nothing but what is in the servers' files, or nothing at all."""
    return _without_sources(former) == _without_sources(plan)


def _without_sources(plan: Plan) -> Plan:
    services = [
        one.model_copy(update={"digest": "", "source_digest": "", "parts": {**one.parts, "sources": ""}})
        for one in plan.services
    ]
    return plan.model_copy(update={"services": tuple(services)})
