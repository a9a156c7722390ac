"""A user's Compose file as it is merged over ours: by the names of instances, its own services within reach. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from gym.plan.model import Plan
from gym.render.compose_shared import shared_names
from gym.wire.stack_names import CONSOLE, NETWORK, ROUTER, SANDBOX, service_name

OWN = (ROUTER, CONSOLE, SANDBOX)
WITHOUT_NETWORKS = ("networks", "network_mode")


def adapt_override(text: str, plan: Plan, project: str) -> str | None:
    """The text to merge instead; None where the user's own will do, also where it is not a Compose file.

    A service that is new to the stack, and names no network, joins that of the servers.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return None
    services = _child(root, "services")
    if not isinstance(services, yaml.MappingNode):
        return None
    slugs = {one.name: one.slug for one in plan.services} | {one.name: one.slug for one in plan.sidecars}
    names = {name: service_name(slug, project) for name, slug in slugs.items()}
    changed = _rename(services, names)
    for _, service in services.value:
        changed |= _rename_needs(_child(service, "depends_on"), names)
    ours = {*names.values(), *shared_names(plan, project), *OWN}
    for key, service in services.value:
        if key.value not in ours and isinstance(service, yaml.MappingNode):
            changed |= _join(service)
    return str(yaml.serialize(root, allow_unicode=True)) if changed else None


def _rename(mapping: yaml.MappingNode, names: Mapping[str, str]) -> bool:
    """Keys that are names of instances; one that the file has under both names is Compose's to complain of."""
    there = {key.value for key, _ in mapping.value}
    found = [key for key, _ in mapping.value if _other_name(key.value, names) not in {key.value, *there}]
    for key in found:
        key.value = names[key.value]
    return bool(found)


def _rename_needs(needs: yaml.Node | None, names: Mapping[str, str]) -> bool:
    if isinstance(needs, yaml.MappingNode):
        return _rename(needs, names)
    listed = needs.value if isinstance(needs, yaml.SequenceNode) else []
    found = [one for one in listed if isinstance(one.value, str) and _other_name(one.value, names) != one.value]
    for one in found:
        one.value = names[one.value]
    return bool(found)


def _join(service: yaml.MappingNode) -> bool:
    if any(_child(service, key) is not None for key in WITHOUT_NETWORKS):
        return False
    network = yaml.ScalarNode("tag:yaml.org,2002:str", NETWORK)
    networks = yaml.SequenceNode("tag:yaml.org,2002:seq", [network], flow_style=True)
    service.value.append((yaml.ScalarNode("tag:yaml.org,2002:str", "networks"), networks))
    return True


def _other_name(name: str, names: Mapping[str, str]) -> str:
    return names.get(name, name)


def _child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    """Also of what a merge key brings in."""
    if not isinstance(node, yaml.MappingNode):
        return None
    for name, child in node.value:
        if name.value == key:
            return child  # type: ignore[no-any-return]
    merged = [child for name, child in node.value if name.value == "<<"]
    return next((found for one in merged if (found := _child(one, key)) is not None), None)
