"""`sandbox:` of an instance -> what it may ask the broker for; and the settings of the broker itself.

Every mistake is reported with its file, line and key.
"""

from __future__ import annotations

from typing import Any, Final, get_args

from pydantic import ValidationError

from gym.config.field_checks import shown_value
from gym.config.nodes import Findings, Node, Path, describe, did_you_mean, join_or, plain
from gym.wire.sandbox import OPERATOR, Grant, ProviderName

PROVIDER: Final = "sandbox_provider"
SETTINGS: Final = "sandbox_settings"
PROVIDERS: Final[tuple[str, ...]] = get_args(ProviderName)
EXAMPLE: Final = "Write what it may ask for: `sandbox: {images: [python:3.13-slim], network: [none]}`."


def is_grant(node: Node) -> bool:
    return isinstance(node.value, dict) and _parse(plain(node)) is not None


def read_grant(path: Path, node: Node, findings: Findings) -> Grant | None:
    """The grant, or None with every problem reported."""
    if not isinstance(node.value, dict):
        findings.add(node, path, f"must be a mapping; found {describe(node.value)}", EXAMPLE)
        return None
    if path[0] == OPERATOR:
        what = f"cannot be granted: `{OPERATOR}` is what the broker calls the operator of the stack"
        findings.add(node, path, what, "Give the instance another name.")
        return None
    try:
        return Grant.model_validate(plain(node))
    except ValidationError as error:
        for one in error.errors():
            _tell(one, path, node, findings)
    return None


def check_broker(tree: Node, findings: Findings) -> None:
    """The top-level keys that speak to the broker."""
    provider = tree.child(PROVIDER)
    if provider is not None and provider.known and provider.value not in (None, *PROVIDERS):
        hint = did_you_mean(str(provider.value), PROVIDERS) or f"Write one of {', '.join(PROVIDERS)}."
        findings.add(provider, PROVIDER, f"must be {join_or(PROVIDERS)}; found {shown_value(PROVIDER, provider)}", hint)
    settings = tree.child(SETTINGS)
    if settings is not None and settings.known and not isinstance(settings.value, (dict, type(None))):
        what = f"must be a mapping; found {describe(settings.value)}"
        findings.add(settings, SETTINGS, what, "docs/sandboxes.md lists what it may hold.")


def _parse(value: Any) -> Grant | None:
    try:
        return Grant.model_validate(value)
    except ValidationError:
        return None


def _tell(error: Any, path: Path, node: Node, findings: Findings) -> None:
    place, key = node, path
    for part in error["loc"]:
        place, key = place.child(part) or place, (*key, part)
    if error["type"] == "extra_forbidden":
        hint = did_you_mean(str(error["loc"][-1]), Grant.model_fields) or f"It knows: {', '.join(Grant.model_fields)}."
        findings.add(place, key, "is not a key of a grant", hint)
        return
    wanted = str(error["msg"]).removeprefix("Value error, ").replace("Input should be", "must be")
    found = shown_value(str(error["loc"][-1]), place) if error["loc"] else describe(place.value)
    findings.add(
        place,
        key,
        f"{wanted.replace('a valid tuple', 'a list').replace('a valid string', 'text')}; found {found}",
        "docs/sandboxes.md lists the keys of `sandbox:`.",
    )
