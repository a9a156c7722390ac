"""A plan without its secrets: each value becomes `secret://NAME`, which the container reads from /run/secrets/NAME."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final

from gym.plan.model import Plan, Service, Sidecar

PREFIX: Final = "secret://"
FOUND: Final = re.compile(rf"{PREFIX}([a-z0-9][a-z0-9_-]*)")


def replace_secrets(plan: Plan, secrets: Mapping[str, str]) -> tuple[Plan, dict[str, str]]:
    """The plan with names, and the values by name: they are written to files of their own, and nowhere else.

    `secrets` maps dotted paths to values, as `gym.config.collect_secrets` gives them. Equal values share a name.
    """
    names = _name_values(secrets)
    by_path = {path: f"{PREFIX}{names[value]}" for path, value in secrets.items() if value}
    services = tuple(_replace_in_service(one, by_path) for one in plan.services)
    sidecars = tuple(_replace_in_sidecar(one, by_path) for one in plan.sidecars)
    settings = {key: by_path.get(key, _replace(value, key, by_path)) for key, value in plan.settings.items()}
    changed = plan.model_copy(update={"services": services, "sidecars": sidecars, "settings": settings})
    return changed, {name: value for value, name in names.items()}


def secret_names(text: str) -> tuple[str, ...]:
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


def _replace_in_service(service: Service, by_path: Mapping[str, str]) -> Service:
    env = {key: by_path.get(f"{service.name}.env.{key}", value) for key, value in service.container.env.items()}
    return service.model_copy(
        update={
            "fields": _replace(service.fields, service.name, by_path),
            "container": service.container.model_copy(update={"env": env}),
        }
    )


def _replace_in_sidecar(sidecar: Sidecar, by_path: Mapping[str, str]) -> Sidecar:
    path = f"{sidecar.instance}.services.{sidecar.spec.name}.env"
    env = {key: by_path.get(f"{path}.{key}", value) for key, value in sidecar.spec.env.items()}
    return sidecar.model_copy(update={"spec": sidecar.spec.model_copy(update={"env": env})})


def _replace(tree: Any, path: str, by_path: Mapping[str, str]) -> Any:
    if isinstance(tree, Mapping):
        return {key: _replace(value, f"{path}.{key}", by_path) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [_replace(value, f"{path}.{index}", by_path) for index, value in enumerate(tree)]
    return tree if isinstance(tree, bool) or tree is None else by_path.get(path, tree)
