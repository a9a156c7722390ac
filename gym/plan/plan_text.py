"""A plan as a person reads it: one line an instance. Holds no field, so no secret either."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gym.plan.model import Change, Plan, SandboxPlan, Service, Sidecar
from gym.plan.shared_processes import container_slug
from gym.wire.server_types import KINDS

MARKS = {"create": "+", "replace": "~", "scale": "*", "keep": " ", "remove": "-"}


def plan_to_text(plan: Plan) -> str:
    router = plan.router
    guard = ", asks for a token" if router.needs_token else ""
    instances, replicas = len(plan.services), sum(one.replicas for one in plan.services)
    rows = [("INSTANCE", "TYPE", "SERVER", "REPLICAS", "NEEDS", "RUNS", "DIGEST"), *map(_row, plan.services)]
    return "\n".join(
        [
            f"stack {plan.stack}: {_count(instances, 'instance')}, {_count(replicas, 'replica')}",
            f"router http://{router.host}:{router.port}{guard}",
            *([_broker(plan.sandbox)] if plan.sandbox else []),
            *_strict(plan),
            "",
            *_columns(rows),
            *_sidecars(plan),
            "",
        ]
    )


def changes_to_text(changes: Iterable[Change]) -> str:
    """What `diff` found; services that stay as they are get no line."""
    rows = [(MARKS[one.action], one.action, one.service, one.why) for one in changes if one.action != "keep"]
    return "\n".join([*_columns(rows), ""]) if rows else "nothing to change\n"


def _broker(broker: SandboxPlan) -> str:
    return f"sandbox broker {broker.digest[:12]}, provider {broker.provider}, for {', '.join(broker.grants)}"


def _strict(plan: Plan) -> list[str]:
    names = [one.name for one in plan.services if one.strict]
    return [f"strict: {', '.join(names)}"] if names else []


def _sidecars(plan: Plan) -> list[str]:
    rows = [(one.name, str(one.spec.port), _what_runs(one), one.digest[:12]) for one in plan.sidecars]
    return ["", *_columns([("SERVICE", "PORT", "RUNS", "DIGEST"), *rows])] if rows else []


def _what_runs(sidecar: Sidecar) -> str:
    """In a container, or else as a process."""
    return sidecar.spec.image or sidecar.spec.build or sidecar.spec.command[0]


def _row(service: Service) -> tuple[str, ...]:
    return (
        service.name,
        KINDS[service.type],
        service.implementation,
        str(service.replicas),
        ", ".join(service.needs) or "-",
        _how_it_runs(service),
        service.digest[:12],
    )


def _how_it_runs(service: Service) -> str:
    facts = service.container
    how = facts.image or facts.build or {"sdk": "SDK", "script": "script", "image": "image"}[service.launch]
    limits = [
        f"{facts.cpus:g} cpus" if facts.cpus else "",
        facts.memory or "",
        f"gpus {facts.gpus}" if facts.gpus else "",
        f"in {container_slug(service.process)}" if service.process else "may share its process" if facts.share else "",
        f"on {', '.join(f'{key}={value}' for key, value in facts.placement.items())}" if facts.placement else "",
    ]
    return ", ".join([how, *filter(None, limits)])


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
