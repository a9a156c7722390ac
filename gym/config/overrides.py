"""The `key.path=value` words of a command line: `a=1`, `+a=1`, `++a=1`, `~a`, read as Hydra reads their values.

Messages name the key only: the value may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from gym.config.nodes import (
    COMMAND_LINE,
    MAX_DEPTH,
    Findings,
    Node,
    Path,
    delete_at,
    did_you_mean,
    dotted,
    find,
    located,
    nearest,
    plain,
    set_at,
    words,
)
from gym.config.values import GrammarError, parse_value

_WORD = re.compile(r"(?P<sign>\+\+|\+|~)?(?P<key>[^=]*)(?P<equals>=)?(?P<value>.*)", re.DOTALL)
_KEY = re.compile(r"[^\s.=\[\]{}'\"$,~+]+")
# What a stack may hold beside its servers, for the nearest name of one that is mistyped.
SETTINGS = words(
    "config_paths default_host head_server disallowed_ports python_version use_absolute_ip hf_token port_range_low "
    "port_range_high dry_run results_dir cache_dir verbose policy_base_url policy_api_key policy_model_name "
    "policy_urls error_on_almost_servers model_endpoint_readiness_timeout_seconds"
)


@dataclass(frozen=True, slots=True)
class Override:
    action: Literal["set", "delete"]
    path: Path
    value: Node | None
    insists: bool  # written with + or ++: a new key is meant


def parse_overrides(typed: Iterable[str], findings: Findings) -> list[Override]:
    parsed = [_parse(word, findings) for word in typed]
    return [one for one in parsed if one is not None]


def apply_overrides(tree: Node, overrides: Iterable[Override], findings: Findings) -> Node:
    """The overrides over a tree, in their order."""
    for one in overrides:
        tree = _delete(tree, one, findings) if one.action == "delete" else _set(tree, one, findings)
    return tree


def overrides_alone(overrides: Iterable[Override]) -> Node:
    """What the command line says by itself, before there are files: it may name files."""
    tree = Node({}, COMMAND_LINE)
    for one in overrides:
        if one.value is not None and one.action == "set":
            try:
                tree = set_at(tree, one.path, one.value)
            except IndexError:
                continue  # an element of a list that a file holds
    return tree


def _parse(word: str, findings: Findings) -> Override | None:
    place = Node(None, COMMAND_LINE)
    found = _WORD.fullmatch(word)
    sign, key = (found["sign"] or "", found["key"].strip()) if found else ("", word)
    if found is None or not (found["equals"] or sign == "~"):
        shown = key if len(key) <= 60 else f"{key[:60]}…"
        findings.add(place, "", f"`{shown}` is not an override", "Write KEY=VALUE, or ~KEY to delete a key.")
        return None
    path = _parse_key(key)
    if path is None:
        hint = "A key is names joined by dots, such as mcqa.resources_servers.mcqa.port=8000."
        findings.add(place, key[:100], "is not a key", hint)
        return None
    try:
        found["value"].encode()
        value = parse_value(found["value"])
    except UnicodeEncodeError:
        findings.add(place, path, "the value is not UTF-8 text", "Check the encoding of your terminal.")
        return None
    except GrammarError as error:
        findings.add(
            place, path, f"the value cannot be read: {error}", "Quote text that holds brackets or quotes: 'a=\"[x\"'."
        )
        return None
    if sign == "~":
        return Override("delete", path, located(value, COMMAND_LINE) if found["equals"] else None, False)
    return Override("set", path, located(value, COMMAND_LINE), sign != "")


def _parse_key(key: str) -> Path | None:
    """`a.b[0].c` -> ("a", "b", "0", "c")."""
    parts = re.sub(r"\[(\d{1,9})\]", r".\1", key).split(".")
    try:
        key.encode()
    except UnicodeEncodeError:
        return None
    return tuple(parts) if len(parts) <= MAX_DEPTH and all(_KEY.fullmatch(part) for part in parts) else None


def _set(tree: Node, one: Override, findings: Findings) -> Node:
    assert one.value is not None
    if not one.insists:
        _notice_near_miss(tree, one, findings)
    try:
        return set_at(tree, one.path, one.value)
    except IndexError:
        what = "is beyond the end of the list"
        findings.add(one.value, one.path, what, "Give the whole list: KEY=[first,second].")
        return tree


def _delete(tree: Node, one: Override, findings: Findings) -> Node:
    place = Node(None, COMMAND_LINE)
    there = find(tree, one.path)
    if there is None:
        parent = find(tree, one.path[:-1])
        names = parent.value if parent and isinstance(parent.value, dict) else ()
        hint = did_you_mean(str(one.path[-1]), names) or "`gym config` shows the keys there are."
        findings.add(place, one.path, "cannot be deleted: there is no such key", hint)
        return tree
    if one.value is not None and plain(one.value) != plain(there):
        hint = f"Write ~{dotted(one.path)} to delete it whatever its value."
        findings.add(place, one.path, "is not deleted: its value is another one", hint)
        return tree
    return delete_at(tree, one.path)


def _notice_near_miss(tree: Node, one: Override, findings: Findings) -> None:
    """A new key that looks like an old one is taken as written, with a notice."""
    for depth, part in enumerate(one.path):
        parent = find(tree, one.path[:depth])
        if parent is None or not isinstance(parent.value, dict):
            return
        if parent.child(part) is not None:
            continue
        names = [*parent.value, *(SETTINGS if depth == 0 else ())]
        close = [] if part in names else nearest(str(part), names, 1)
        if close and _is_near(str(part), close[0]):
            wanted = dotted([*one.path[:depth], close[0]])
            findings.notice(
                f"{COMMAND_LINE}: {dotted(one.path)} is a new key; did you mean `{wanted}`? "
                "(+KEY=VALUE says that it is meant)"
            )
        return


def _is_near(new: str, old: str) -> bool:
    """A slip of the fingers, not another word: nearly the same letters, and not the same name with another number."""
    if re.sub(r"\d+", "", new) == re.sub(r"\d+", "", old):
        return False
    return abs(len(new) - len(old)) <= 2 and _distance(new, old) <= (1 if min(len(new), len(old)) <= 5 else 2)


def _distance(one: str, other: str) -> int:
    if len(one) > 100 or len(other) > 100:
        return max(len(one), len(other))
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (a != b))
    return row[-1]
