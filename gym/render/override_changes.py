"""What a user's Compose files say that they did not say before, in words; names in them that mean nothing. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import yaml

from gym.config import redact
from gym.errors import Problem, UserError
from gym.plan.model import Action, Change, Plan
from gym.plan.plan_diff import with_reason
from gym.render.compose_shared import shared_names
from gym.render.override_file import OWN
from gym.wire.stack_names import service_name

MADE_FROM: Final = ("image", "build", "extends", "provider")  # one of them makes a service of its own
LISTED_VALUES: Final = ("environment", "labels")  # a list of KEY=VALUE means the same as a mapping
SHOWN: Final = 4
LONGEST: Final = 60

Leaf = tuple[str, ...]


class Said(NamedTuple):
    text: str
    shown: str  # the same, or a mask where the key says that it is a secret


def override_changes(before: Sequence[str], now: Sequence[str], plan: Plan, project: str) -> tuple[Change, ...]:
    """One for each service, by its instance's name, and for each other part of the files. Texts of files; of two that
    say the same key, the later one holds."""
    names = _instances(plan, project)
    old, new = _parts(before, names), _parts(now, names)
    words = {part: _words(old.get(part, {}), new.get(part, {})) for part in sorted({*old, *new})}
    return tuple(
        Change(action=_action(part, old, new, names), service=part, why=f"-f: {why}")
        for part, why in words.items()
        if why
    )


def check_override(texts: Mapping[str, str], plan: Plan, project: str) -> None:
    """A wrong server name is refused with the nearest one, before Compose asks for an image."""
    trees = {path: _services(text) for path, text in texts.items()}
    known = {*_instances(plan, project).values(), *_instances(plan, project), *OWN}
    made = {name for tree in trees.values() for name, service in tree.items() if _makes(service)}
    problems = [
        _unknown(name, path, where, sorted({*_instances(plan, project).values(), *OWN, *made}))
        for path, tree in trees.items()
        for name, where in _used(tree)
        if name not in known | made
    ]
    if problems:
        raise UserError("\n".join(map(str, problems)), "Names are those of instances, as `gym ps` shows them.")


def named_instances(texts: Iterable[str], plan: Plan, project: str) -> frozenset[str]:
    """Those whose service a file changes, or asks to be started first: each is a service of its own."""
    by_service = _instances(plan, project)
    used = {name for text in texts for name, _ in _used(_services(text))}
    return frozenset(name for service, name in by_service.items() if used & {service, name})


def _unknown(name: str, path: str, where: str, known: list[str]) -> Problem:
    near = difflib.get_close_matches(name, known, n=2, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"There are {', '.join(known)}."
    made = "" if where else "; a service of your own needs `image` or `build`"
    return Problem(f"no server is called `{name}`{made}", file=path, key=f"services.{where or name}", hint=hint)


def _used(services: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each name, and where it is needed; "" where it is changed."""
    for name, service in services.items():
        yield name, ""
        needs = service.get("depends_on") if isinstance(service, dict) else None
        for one in needs if isinstance(needs, dict | list) else ():
            yield str(one), f"{name}.depends_on"


def _makes(service: Any) -> bool:
    return isinstance(service, dict) and any(key in service for key in MADE_FROM)


def _instances(plan: Plan, project: str) -> dict[str, str]:
    """Name in the Compose file -> name of the instance, or of its service; one that instances share has no other."""
    slugs = {one.name: one.slug for one in plan.services} | {one.name: one.slug for one in plan.sidecars}
    shared = {name: name for name in shared_names(plan, project)}
    return {service_name(slug, project): name for name, slug in slugs.items()} | shared


def _action(part: str, old: Mapping[str, Any], new: Mapping[str, Any], names: Mapping[str, str]) -> Action:
    if part in {*names.values(), *OWN}:
        return "replace"
    return "create" if part not in old else "remove" if part not in new else "replace"


def _words(old: Mapping[Leaf, Said], new: Mapping[Leaf, Said]) -> str:
    changed = [
        _say(".".join(leaf), old.get(leaf), new.get(leaf))
        for leaf in sorted({*old, *new})
        if old.get(leaf) != new.get(leaf)
    ]
    more = f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
    return "; ".join(changed[:SHOWN]) + more


def _say(key: str, old: Said | None, new: Said | None) -> str:
    was, now = _short(old.shown if old else ""), _short(new.shown if new else "")
    if new is None:
        return f"{key} is {was} no longer"
    if old is None:
        return f"{key} is {now}"
    return f"{key} changed" if was == now else f"{key} {was} -> {now}"


def _short(value: str) -> str:
    return value if len(value) <= LONGEST else f"{value[:LONGEST]}..."


def _parts(texts: Sequence[str], names: Mapping[str, str]) -> dict[str, dict[Leaf, Said]]:
    found: dict[str, dict[Leaf, Said]] = {}
    for text in texts:
        tree = _tree(text)
        services = tree.pop("services", None)
        for name, service in services.items() if isinstance(services, dict) else ():
            found.setdefault(names.get(name, name), {}).update(_leaves(service))
        for key, value in tree.items():
            found.setdefault(key, {}).update(_leaves(value))
    return found


def _leaves(value: Any, at: Leaf = ()) -> dict[Leaf, Said]:
    if isinstance(value, list) and at and at[-1] in LISTED_VALUES:
        value = {key: text for key, _, text in (str(one).partition("=") for one in value)}
    if isinstance(value, dict) and value:
        return {leaf: one for key, below in value.items() for leaf, one in _leaves(below, (*at, key)).items()}
    text = f"[{', '.join(map(str, value))}]" if isinstance(value, list) else str(value)
    return {at: Said(text, str(redact({at[-1]: text})[at[-1]]) if at else text)}


def _services(text: str) -> dict[str, Any]:
    found = _tree(text).get("services")
    return found if isinstance(found, dict) else {}


def _tree(text: str) -> dict[str, Any]:
    """What cannot be read is Compose's to complain of."""
    try:
        found = _to_value(yaml.compose(text, Loader=yaml.SafeLoader))
    except yaml.YAMLError:
        return {}
    return found if isinstance(found, dict) else {}


def _to_value(node: yaml.Node | None) -> Any:
    """As written: Compose's own tags (`!reset`) are not types, and `007` is not a number."""
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key, child in node.value:
            value = _to_value(child)
            for merged in value if isinstance(value, list) else [value]:
                found |= merged if key.value == "<<" and isinstance(merged, dict) else {}
            if key.value != "<<":
                found[str(key.value)] = value
        return found
    if isinstance(node, yaml.SequenceNode):
        return [_to_value(one) for one in node.value]
    tag = f"{node.tag} " if node is not None and node.tag.startswith("!") else ""
    return f"{tag}{node.value if node is not None else ''}"


def with_stale(changes: Iterable[Change], stale: Collection[str], overrides: Iterable[Change]) -> tuple[Change, ...]:
    """Adds the reason to each `stale` instance: a change in `overrides`, else a new image. The other changes in
    `overrides`, those of no instance, follow as they are."""
    by_service = {one.service: one for one in overrides}
    listed = [_with_override(one, one.service in stale, by_service.pop(one.service, None)) for one in changes]
    return (*listed, *by_service.values())


def _with_override(change: Change, stale: bool, override: Change | None) -> Change:
    first = override.why if override else "its image changed, or what Compose makes of an override file"
    return with_reason(change, first if stale else "")
