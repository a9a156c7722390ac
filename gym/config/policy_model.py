"""Which model is the policy: the one that was typed, the one the files hold, or the one the settings suggest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gym.config.aliases import POLICY, POLICY_NAMES, SERVER_TYPES, other_names
from gym.config.nodes import MISSING, Findings, Node, Path, delete_at, merge, walk
from gym.config.redaction import redact_text
from gym.wire.server_types import MODELS


def choose_policy(files: Node, tree: Node, is_model: Callable[[str], bool], findings: Findings) -> str | None:
    """The short name of the model to load as the policy; None when the files hold one, or nothing needs it.

    `tree` is the files with the overrides over them: an override may name the model whose fields it sets.
    """
    if any(_holds_server(files, name) for name in POLICY_NAMES) or not _needs_policy(tree):
        return None
    typed = _below(tree, (POLICY, MODELS))
    if typed is not None and isinstance(typed.value, dict) and typed.value:
        return next((name for name in typed.value if is_model(name)), None)
    url = tree.child("policy_base_url")
    values = url.value if url is not None and isinstance(url.value, list) else [url] if url is not None else []
    values = [one.value for one in values]
    if any(value not in (None, "", MISSING) for value in values):
        shown = ", ".join(redact_text(str(value)) for value in values)
        findings.notice(f"The policy is `openai` at {shown} (policy_base_url; --model NAME takes another).")
        return "openai"
    findings.notice("No policy_base_url: the policy is `scripted`, which needs no key (--model NAME takes another).")
    return "scripted"


def name_policy(tree: Node) -> Node:
    """A model's own configuration, its instance called `policy_model`."""
    models = [name for name, node in tree.value.items() if node.child(MODELS) is not None]
    if POLICY in models or len(models) != 1:
        return tree
    entries = {POLICY if name == models[0] else name: node for name, node in tree.value.items()}
    return replace(tree, value=entries)


def join_aliases(tree: Node, policy: Node | None = None, findings: Findings | None = None) -> Node:
    """One implementation where two files call it by different names; one policy where another was asked for."""
    for name, instance in tree.value.items():
        for type_ in SERVER_TYPES:
            inner = instance.child(type_)
            if inner is not None and isinstance(inner.value, dict) and len(inner.value) > 1:
                tree = _replaced(tree, (name, type_), _joined(inner))
    chosen = policy.child(POLICY) if policy is not None else None
    wanted = chosen.child(MODELS) if chosen is not None else None
    there = _below(tree, (POLICY, MODELS))
    if wanted is None or there is None or not isinstance(wanted.value, dict) or not isinstance(there.value, dict):
        return tree
    for key, node in there.value.items():
        if key not in wanted.value:
            tree = delete_at(tree, (POLICY, MODELS, key))
            if findings is not None:
                findings.notice(f"--model takes the place of `{key}` as {POLICY} ({node.file}:{node.line}).")
    return tree


def _joined(inner: Node) -> Node:
    entries: dict[str, Node] = {}
    for key, node in inner.value.items():
        known = next((one for one in entries if one in other_names(key)), key)
        entries[known] = merge(entries[known], node) if known in entries else node
    return replace(inner, value=entries)


def _replaced(tree: Node, path: Path, node: Node) -> Node:
    if not path:
        return node
    return replace(tree, value={**tree.value, path[0]: _replaced(tree.value[path[0]], path[1:], node)})


def _below(tree: Node, path: Path) -> Node | None:
    found: Node | None = tree
    for part in path:
        found = found.child(part) if found is not None else None
    return found


def _holds_server(tree: Node, name: str) -> bool:
    node = tree.child(name)
    return node is not None and (node.child(MODELS) is not None or isinstance(node.value, str))


def _needs_policy(tree: Node) -> bool:
    """Whether something refers to the policy by one of its names."""
    for _, node in walk(tree):
        if not isinstance(node.value, dict):
            continue
        name, type_ = node.child("name"), node.child("type")
        if name is not None and name.value in POLICY_NAMES and type_ is not None and type_.value == MODELS:
            return True
    return False
