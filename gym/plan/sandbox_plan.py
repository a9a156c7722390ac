"""The sandbox broker of a plan: there as soon as one instance holds a grant, and known by the digest of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gym.config.model import StackConfig
from gym.errors import UserError
from gym.plan.digest import digest_of, digest_value
from gym.plan.model import SandboxPlan
from gym.wire.sandbox import Grant
from gym.wire.stack_names import SANDBOX


def plan_sandbox(stack: StackConfig, sdk: str) -> SandboxPlan | None:
    """None when no instance asks for sandboxes: then nothing of the stack touches an engine's socket."""
    grants = {one.name: one.sandbox for one in stack.instances if one.sandbox is not None}
    if not grants:
        return None
    _check_name(one.name for one in stack.instances)
    provider = stack.settings.get("sandbox_provider") or "auto"
    settings = stack.settings.get("sandbox_settings") or {}
    parts = _parts(grants, provider, settings, sdk)
    return SandboxPlan(provider=provider, settings=settings, grants=grants, parts=parts, digest=digest_of(parts))


def _parts(grants: Mapping[str, Grant], provider: str, settings: Mapping[str, Any], sdk: str) -> dict[str, str]:
    found = {
        "grants": {name: one.model_dump(mode="json") for name, one in grants.items()},
        "provider": provider,
        "settings": settings,
        "SDK version": sdk,
    }
    return {name: digest_value(value)[:12] for name, value in found.items()}


def _check_name(names: Iterable[str]) -> None:
    if SANDBOX in names:
        raise UserError(
            f"an instance is called `{SANDBOX}`, as the sandbox broker of this stack is.",
            "Give the instance another name.",
        )
