"""The provider of a local stack's sandboxes: what was asked for by name, else the best there is on this machine."""

from __future__ import annotations

import shutil
from typing import Final

from gym.errors import InfraError, UserError
from gym.plan.model import Plan, SandboxPlan, Value
from gym.wire.sandbox import ProviderName

BWRAP: Final = "bwrap"


class SandboxFacts(Value):
    """What this machine can make sandboxes with."""

    engine_error: str = ""  # why no engine can be used; "" when one answers
    bubblewrap: bool = False


def read_sandbox_facts(plan: Plan) -> SandboxFacts:
    """An engine is asked only where the plan leaves the choice open."""
    if plan.sandbox is None or plan.sandbox.provider != "auto":
        return SandboxFacts()
    from gym.engine import find_engine  # noqa: PLC0415  (an HTTP client, 20 ms)

    engine = find_engine()
    error = engine.what if isinstance(engine, InfraError) else ""
    return SandboxFacts(engine_error=error, bubblewrap=shutil.which(BWRAP) is not None)


def choose_provider(broker: SandboxPlan, facts: SandboxFacts) -> tuple[ProviderName, str]:
    """The provider, and one line for the user."""
    if broker.provider == "kubernetes":
        raise UserError(
            "sandbox_provider is kubernetes, and sandboxes are pods only where their broker is one.",
            "Leave it out, or write the stack's manifests: gym render ... --target kubernetes -o DIR",
        )
    if broker.provider != "auto":
        return broker.provider, f"sandboxes: {broker.provider}{_caution(broker.provider)}"
    if not facts.engine_error:
        return "docker", "sandboxes: docker"
    if facts.bubblewrap:
        return "bubblewrap", f"sandboxes: bubblewrap ({facts.engine_error.rstrip('.')})"
    asking = ", ".join(broker.grants)
    raise UserError(
        f"{asking} asks for sandboxes, and nothing here can make them: {facts.engine_error} "
        "Bubblewrap is not installed either.",
        "Install it (apt-get install bubblewrap), or start an engine. A provider that isolates nothing has to be "
        "named: gym up ... --sandbox-provider subprocess",
    )


def _caution(provider: ProviderName) -> str:
    return ", which isolates nothing: whatever runs in one can do what you can" if provider == "subprocess" else ""
