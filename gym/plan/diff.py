"""What has to happen for a plan to be what runs: one change a service, each with its reason. Pure."""

from __future__ import annotations

from gym.plan.model import Change, Observed, ObservedService, Plan, SandboxPlan, Service
from gym.wire.stack_names import SANDBOX


def diff(plan: Plan, observed: Observed) -> tuple[Change, ...]:
    """Changes in the plan's order, then the removals. `observed.services` is keyed by instance name."""
    planned = {one.name for one in plan.services} | ({SANDBOX} if plan.sandbox else set())
    broker = [_broker_change(plan.sandbox, observed.services.get(SANDBOX))] if plan.sandbox else []
    changes = [_change(one, observed.services.get(one.name)) for one in plan.services]
    gone = [Change(action="remove", service=name, why="no longer in the stack") for name in sorted(observed.services)]
    return (*broker, *changes, *(one for one in gone if one.service not in planned))


def _broker_change(broker: SandboxPlan, running: ObservedService | None) -> Change:
    if running is None:
        return Change(action="create", service=SANDBOX, why="new")
    if running.digest != broker.digest:
        return Change(action="replace", service=SANDBOX, why=_what_changed(broker, running))
    return Change(action="keep", service=SANDBOX)


def _change(service: Service, running: ObservedService | None) -> Change:
    if running is None:
        return Change(action="create", service=service.name, why="new")
    if running.digest != service.digest:
        return Change(action="replace", service=service.name, why=_what_changed(service, running))
    if running.replicas != service.replicas:
        return Change(action="scale", service=service.name, why=f"{running.replicas} -> {service.replicas} replicas")
    return Change(action="keep", service=service.name)


def _what_changed(service: Service | SandboxPlan, running: ObservedService) -> str:
    if not running.parts:
        return "changed"
    names = [*service.parts, *(name for name in running.parts if name not in service.parts)]
    changed = [name for name in names if service.parts.get(name) != running.parts.get(name)]
    return f"{', '.join(changed)} changed" if changed else "changed"
