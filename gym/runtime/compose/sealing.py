"""A plan without its secrets: each value becomes `secret://NAME`, which the container reads from /run/secrets/NAME."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from gym.plan.model import Plan, Service, Value

PREFIX: Final = "secret://"
FOUND: Final = re.compile(rf"{PREFIX}([a-z0-9][a-z0-9_-]*)")


class Sealed(Value):
    plan: Plan
    values: dict[str, str]  # name -> value: what is written to files of its own, and nowhere else


def seal(plan: Plan, secrets: Mapping[str, str]) -> Sealed:
    """`secrets` maps dotted paths to values, as `gym.config.collect_secrets` gives them. Equal values share a name."""
    names = _name_values(secrets)
    sealed = {path: f"{PREFIX}{names[value]}" for path, value in secrets.items() if value}
    services = tuple(_seal_service(one, sealed) for one in plan.services)
    settings = {key: sealed.get(key, _sealed(value, key, sealed)) for key, value in plan.settings.items()}
    return Sealed(
        plan=plan.model_copy(update={"services": services, "settings": settings}),
        values={name: value for value, name in names.items()},
    )


def named_in(text: str) -> tuple[str, ...]:
    """The names of the secrets that a text asks for."""
    return tuple(sorted(set(FOUND.findall(text))))


def _name_values(secrets: Mapping[str, str]) -> dict[str, str]:
    names: dict[str, str] = {}
    for path, value in sorted(secrets.items()):
        if value and value not in names:
            names[value] = _secret_name(path, set(names.values()))
    return names


def _secret_name(path: str, taken: set[str]) -> str:
    name = re.sub(r"[^a-z0-9_-]+", "-", path.lower()).strip("-_")[:80] or "secret"
    return name if name not in taken else f"{name}-{hashlib.sha256(path.encode()).hexdigest()[:8]}"


def _seal_service(service: Service, sealed: Mapping[str, str]) -> Service:
    env = {key: sealed.get(f"{service.name}.env.{key}", value) for key, value in service.container.env.items()}
    return service.model_copy(
        update={
            "fields": _sealed(service.fields, service.name, sealed),
            "container": service.container.model_copy(update={"env": env}),
        }
    )


def _sealed(tree: Any, path: str, sealed: Mapping[str, str]) -> Any:
    if isinstance(tree, Mapping):
        return {key: _sealed(value, f"{path}.{key}", sealed) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [_sealed(value, f"{path}.{index}", sealed) for index, value in enumerate(tree)]
    return tree if isinstance(tree, bool) or tree is None else sealed.get(path, tree)
