"""`strict: true` at the top of a configuration: the strict mode of every verifier that has one and says nothing itself.

Which verifier has one is read from its entry point: a class there declares the field.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gym.config.catalog import ServerFolder, find_implementation
from gym.config.nodes import Findings, Node, describe

if TYPE_CHECKING:
    from gym.config.model import Instance

STRICT: Final = "strict"
VERIFIERS: Final = "resources_servers"


def read_strict(tree: Node, findings: Findings) -> bool:
    node = tree.child(STRICT)
    if node is None or not node.known or node.value is None:
        return False
    if not isinstance(node.value, bool):
        what = f"must be true or false; found {describe(node.value)}"
        findings.add(node, STRICT, what, "Write `strict: true`; a server's own `strict` wins over it.")
    return node.value is True


def apply_strict(
    instances: Sequence[Instance], folders: Sequence[ServerFolder], findings: Findings
) -> tuple[Instance, ...]:
    """The instances with the field set; those without a strict mode, or kept out of it, are named in one line."""
    verifiers = [one for one in instances if one.type == VERIFIERS]
    lacking = [one.name for one in verifiers if not is_said(one.fields) and not _has_strict(one, folders)]
    if lacking:
        findings.notice(f"strict: no such mode, left as configured: {', '.join(lacking)}.")
    lenient = [one.name for one in verifiers if one.fields.get(STRICT) is False]
    if lenient:
        findings.notice(f"strict: not for {', '.join(lenient)}, whose own configuration says `strict: false`.")
    return tuple(
        one.model_copy(update={"fields": {**one.fields, STRICT: True}})
        if one in verifiers and not is_said(one.fields) and one.name not in lacking
        else one
        for one in instances
    )


def declares_strict(directory: Path, entrypoint: str = "app.py") -> bool:
    """A class of the entry point has the field, as a settings class declares it."""
    try:
        source = (directory / entrypoint).read_bytes()
        if STRICT.encode() not in source:  # most have none, and need not be parsed
            return False
        tree = ast.parse(source)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    return any(_is_field(statement) for one in classes for statement in one.body)


def is_said(fields: Mapping[str, Any]) -> bool:
    """The server's own configuration settles it."""
    return fields.get(STRICT) is not None


def _has_strict(instance: Instance, folders: Sequence[ServerFolder]) -> bool:
    """An instance that is an image may have its folder here all the same."""
    found = instance.directory or find_implementation(instance.type, instance.implementation, folders)
    return found is not None and declares_strict(found, instance.entrypoint)


def _is_field(statement: ast.stmt) -> bool:
    target = statement.target if isinstance(statement, ast.AnnAssign) else None
    return isinstance(target, ast.Name) and target.id == STRICT
