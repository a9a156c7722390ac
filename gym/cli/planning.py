"""The plan of a loaded stack, with the settings of its sandbox broker checked where a person reads the errors."""

from __future__ import annotations

import difflib
from typing import Any

from pydantic import ValidationError

from gym.config import StackConfig
from gym.errors import ConfigError, Problem, UserError
from gym.http.tracing import can_trace
from gym.plan import Plan, RouterPlan, SandboxPlan, make_plan
from gym.wire.telemetry import KEY as TELEMETRY
from gym.wire.telemetry import check_telemetry


def plan_stack(loaded: StackConfig, name: str, router: RouterPlan | None = None) -> Plan:
    check_tracing(loaded)
    plan = make_plan(loaded, name=name, router=router)
    if plan.sandbox is not None:
        check_settings(plan.sandbox)
    return plan


def check_tracing(loaded: StackConfig) -> None:
    """Servers without requirements of their own run in this Python, and so does the collector."""
    block = loaded.settings.get(TELEMETRY)
    check_telemetry(block)
    if isinstance(block, dict) and block.get("otlp") and not can_trace():
        raise UserError(
            "telemetry.otlp is set (--profile observability sets it too), and OpenTelemetry is not installed here.",
            "pip install 'compose-gym[otel]', or leave it out.",
        )


def check_settings(broker: SandboxPlan) -> None:
    """Otherwise they would be read in the log of a broker that does not start."""
    from gym.broker.config import BrokerSettings  # noqa: PLC0415  (32 ms, and most stacks have no broker)

    try:
        BrokerSettings.model_validate(broker.settings)
    except ValidationError as error:
        raise ConfigError([_problem(one, [*BrokerSettings.model_fields]) for one in error.errors()]) from None


def _problem(error: Any, known: list[str]) -> Problem:
    key = ".".join(("sandbox_settings", *map(str, error["loc"])))
    if error["type"] != "extra_forbidden":
        return Problem(f"{error['msg']}; found {error['input']!r}", key=key, hint="docs/sandboxes.md lists them.")
    near = difflib.get_close_matches(str(error["loc"][-1]), known, n=2)
    return Problem("no such setting", key=key, hint=f"Did you mean {' or '.join(near)}?" if near else ", ".join(known))
