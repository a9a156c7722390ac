"""What a server process gets at its start (`NEMO_GYM_CONFIG_DICT`): its own block, whom it talks to, settings.

Nothing of another instance but its address is in it, so no secret of another instance either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gym.plan.model import Plan, Service
from gym.plan.visible_settings import settings_for
from gym.render.yaml_text import escape_interpolation

Address = tuple[str, int | str]
HEAD = "head_server"
# What its launcher always writes, and its servers read without asking whether it is there.
UPSTREAM_SETTINGS: Final[Mapping[str, Any]] = {
    "dry_run": False,
    "port_range_low": 10001,
    "port_range_high": 20000,
    "disallowed_ports": [],
}


def launch_document(
    plan: Plan, service: Service, addresses: Mapping[str, Address], secrets: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """`addresses` says where each instance listens, this one included, as this one sees it (`head_server`: the router).

    `secrets` maps dotted paths (`policy_model.openai_api_key`) to the text that stands there: the value itself, or a
    `secret://NAME` that the server resolves. Paths of other instances are passed over.
    """
    fields = dict(service.fields)
    settings = settings_for(plan.settings, service)
    for path, value in (secrets or {}).items():
        if path.startswith(f"{service.name}."):
            fields = _with_value(fields, path[len(service.name) + 1 :].split("."), value)
        elif path in settings:
            settings[path] = value
    general = UPSTREAM_SETTINGS if service.launch == "script" else {}
    document = {**general, **settings, service.name: _block(service, fields, addresses)}
    for need in service.needs:
        other = plan.service(need)
        if other is not None:
            document[need] = _block(other, {}, addresses)
    host, port = addresses.get(HEAD, (plan.router.host, plan.router.port))
    document[HEAD] = {"host": host, "port": port}
    # OmegaConf resolves `${...}` once more when such a server reads this; what is left of it by now is meant literally.
    escaped: dict[str, Any] = escape_interpolation(document) if service.launch == "script" else document
    return escaped


def upstream_name(service: Service) -> str:
    """What its folder is called as a package in NeMo Gym's tree."""
    return f"{service.type}.{service.directory.name if service.directory else service.implementation}"


def _block(service: Service, fields: Mapping[str, Any], addresses: Mapping[str, Address]) -> dict[str, Any]:
    where = addresses.get(service.name)
    address = {"host": where[0], "port": where[1]} if where else {}
    return {service.type: {service.implementation: {"entrypoint": service.entrypoint, **fields, **address}}}


def _with_value(tree: Any, keys: list[str], value: str) -> Any:
    """A copy with `value` at the place that `keys` leads to; a place that is not there is left alone."""
    if not keys:
        return value
    head, rest = keys[0], keys[1:]
    if isinstance(tree, Mapping):
        found = next((key for key in tree if str(key) == head), None)
        return {**tree, found: _with_value(tree[found], rest, value)} if found is not None else tree
    if isinstance(tree, (list, tuple)) and head.isdigit() and int(head) < len(tree):
        index = int(head)
        return [*tree[:index], _with_value(tree[index], rest, value), *tree[index + 1 :]]
    return tree
