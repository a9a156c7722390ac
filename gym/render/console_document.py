"""What the console gets to know about a stack: its configuration without secrets, and what discovery does not say."""

from __future__ import annotations

from typing import Any

from gym.config.redaction import redact
from gym.labels import HOST_FROM_INSIDE
from gym.plan.model import Plan, Service
from gym.render.traefik import route_prefix
from gym.wire.telemetry import KEY as TELEMETRY
from gym.wire.telemetry import OTLP_PORT, TRACES


def console_document(plan: Plan) -> dict[str, Any]:
    """Goes through JSON into the file that GYM_CONSOLE_CONFIG names."""
    tree: dict[str, Any] = dict(plan.settings)
    for one in plan.services:
        tree[one.name] = {one.type: {one.implementation: {"entrypoint": one.entrypoint, **one.fields}}}
    return {
        "stack": plan.stack,
        "config": redact(tree),
        "servers": {one.name: _facts(one) for one in plan.services},
        "telemetry": telemetry_outside(plan),
    }


def telemetry_outside(plan: Plan) -> dict[str, Any]:
    """Containers know this machine, and the store of traces, by other names than those who call from outside."""
    block = plan.settings.get(TELEMETRY)
    if not isinstance(block, dict):
        return {}
    otlp = str(block.get("otlp") or "").replace(f"//{HOST_FROM_INSIDE}", "//127.0.0.1")
    return {**block, "otlp": otlp.replace(f"//{TRACES}:{OTLP_PORT}", f"//127.0.0.1:{OTLP_PORT}")}


def _facts(service: Service) -> dict[str, Any]:
    return {
        "type": service.type,
        "implementation": service.implementation,
        "prefix": route_prefix(service),
        "slug": service.slug,
        "launch": service.launch,
        "directory": str(service.directory or ""),
        "entrypoint": service.entrypoint,
        "needs": list(service.needs),
        "parts": dict(service.parts),
    }
