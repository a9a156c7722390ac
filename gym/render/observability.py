"""Prometheus, Grafana and a trace store beside a stack: their files, and a Compose file to merge over ours. Pure.

The pieces are templates below compose/observability; the caller reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from gym.config.model import StackConfig
from gym.labels import ROUTER_PORT
from gym.plan.model import Plan
from gym.render.compose import SANDBOXES
from gym.wire.stack_names import NETWORK, PORT, ROUTER, SANDBOX
from gym.wire.telemetry import KEY as TELEMETRY
from gym.wire.telemetry import OTLP_PORT, TRACES

FOLDER: Final = "observability"  # below a stack's home
COMPOSE_FILE: Final = "compose.yaml"
GRAFANA_URL: Final = "http://127.0.0.1:3000"
PROMETHEUS_URL: Final = "http://127.0.0.1:9090"
PIECES: Final = {
    "compose.yaml.j2": COMPOSE_FILE,
    "prometheus.yml.j2": "prometheus.yml",
    "datasources.yaml.j2": "provisioning/datasources/gym.yaml",
    "dashboards.yaml.j2": "provisioning/dashboards/gym.yaml",
    "dashboard.json": "dashboards/stack.json",
}


class Addresses(NamedTuple):
    """How Prometheus and Grafana reach what they show."""

    router: str
    sandbox: str
    prometheus: str
    traces: str
    dashboards: str


def addresses_in_containers(plan: Plan) -> Addresses:
    sandbox = f"{SANDBOX}:{PORT}" if plan.sandbox else ""
    router = f"{ROUTER}:{ROUTER_PORT}"
    return Addresses(router, sandbox, "http://prometheus:9090", f"http://{TRACES}:16686", "/etc/gym/dashboards")


def addresses_here(router: str, folder: str) -> Addresses:
    """For programs on the same machine. `router` is its URL; a local stack's broker does not publish its own."""
    return Addresses(router.rpartition("//")[2], "", PROMETHEUS_URL, "http://127.0.0.1:16686", f"{folder}/dashboards")


def observability_files(plan: Plan, pieces: Mapping[str, str], where: Addresses) -> dict[str, str]:
    """By path below the folder."""
    known: dict[str, Any] = {
        **where._asdict(),
        "stack": plan.stack,
        "network": NETWORK,
        "networks": [NETWORK, *([SANDBOXES] if plan.sandbox else [])],
        "otlp_port": OTLP_PORT,
    }
    return {
        target: _fill(pieces[name], known) if name.endswith(".j2") else pieces[name] for name, target in PIECES.items()
    }


def with_trace_store(loaded: StackConfig) -> StackConfig:
    """Its servers report to the store beside them, unless the configuration names another receiver."""
    block = loaded.settings.get(TELEMETRY)
    own = block if isinstance(block, dict) else {}
    if own.get("otlp") or (block is not None and not isinstance(block, dict)):
        return loaded
    settings = {**loaded.settings, TELEMETRY: {**own, "otlp": f"http://{TRACES}:{OTLP_PORT}"}}
    return loaded.model_copy(update={"settings": settings})


def _fill(template: str, known: Mapping[str, Any]) -> str:
    import jinja2  # noqa: PLC0415 (every `gym up` imports this module, and few ask for the profile)

    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    return environment.from_string(template).render(known)
