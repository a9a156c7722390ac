"""Who makes the sandboxes of a stack: what was asked for by name, else the best there is on this machine."""

from __future__ import annotations

import difflib
import shutil
from typing import Any, Final

from pydantic import ValidationError

from gym.broker.config import Knobs
from gym.cli.session import RuntimeName
from gym.errors import ConfigError, InfraError, Problem, UserError
from gym.plan import Plan, SandboxPlan
from gym.runtime.compose import find_engine
from gym.runtime.sandbox import with_docker
from gym.wire.sandbox import ProviderName

BWRAP: Final = "bwrap"


def settle_provider(plan: Plan, runtime: RuntimeName) -> tuple[Plan, str]:
    """The plan with a provider that is here, and one line for the user; both as they were without a broker."""
    if plan.sandbox is None:
        return plan, ""
    _check_settings(plan.sandbox)
    if runtime == "compose":
        return with_docker(plan), "sandboxes: docker"
    wanted = plan.sandbox.provider
    provider, why = (wanted, _caution(wanted)) if wanted != "auto" else _best(plan.sandbox)
    return plan.model_copy(update={"sandbox": plan.sandbox.model_copy(update={"provider": provider})}), (
        f"sandboxes: {provider}{why}"
    )


def _check_settings(broker: SandboxPlan) -> None:
    """Here, where a person reads it, rather than in the log of a broker that does not start."""
    try:
        Knobs.model_validate(broker.settings)
    except ValidationError as error:
        raise ConfigError([_problem(one) for one in error.errors()]) from None


def _problem(error: Any) -> Problem:
    key = ".".join(("sandbox_settings", *map(str, error["loc"])))
    if error["type"] != "extra_forbidden":
        return Problem(f"{error['msg']}; found {error['input']!r}", key=key, hint="docs/sandboxes.md lists them.")
    known = list(Knobs.model_fields)
    near = difflib.get_close_matches(str(error["loc"][-1]), known, n=2)
    return Problem("no such setting", key=key, hint=f"Did you mean {' or '.join(near)}?" if near else ", ".join(known))


def _best(broker: SandboxPlan) -> tuple[ProviderName, str]:
    engine = find_engine()
    if not isinstance(engine, InfraError):
        return "docker", ""
    if shutil.which(BWRAP):
        return "bubblewrap", f" ({engine.what.rstrip('.')})"
    asking = ", ".join(broker.grants)
    raise UserError(
        f"{asking} asks for sandboxes, and there is nothing to make them: {engine.what} Nor is bubblewrap here.",
        "Install it (apt-get install bubblewrap), or start an engine. What isolates nothing has to be switched on by "
        "name: gym up ... --sandbox-provider subprocess",
    )


def _caution(provider: ProviderName) -> str:
    return ", which isolates nothing: whatever runs in one can do what you can" if provider == "subprocess" else ""
