"""Which top-level keys are servers, and whether what they say can be: shapes, types, references. All at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gym.config.aliases import SERVER_TYPES, known_as
from gym.config.instance_keys import FACTS, KNOWN_FACTS
from gym.config.model import ServerRef
from gym.config.nodes import (
    BROKEN,
    MISSING,
    Findings,
    Node,
    Path,
    children,
    describe,
    did_you_mean,
    dotted,
    nearest,
    walk,
    words,
)
from gym.config.redaction import is_secret_key, redact_text
from gym.errors import Problem
from gym.labels import REDACTED
from gym.wire.server_types import ServerType

DOMAINS = frozenset(
    words("math coding agent knowledge instruction_following long_context safety games translation e2e rlhf other")
)
RESERVED = frozenset(
    words(
        "config_paths entrypoint default_host head_server disallowed_ports head_server_deps python_version "
        "json verbose query pip_install_verbose use_absolute_ip uv_pip_set_python skip_venv_if_present "
        "hf_token ray_head_node_address port_range_low port_range_high dry_run "
        "model_endpoint_readiness_timeout_seconds allow_openai_version_skew uv_cache_dir uv_venv_dir "
        "results_dir cache_dir _inherit_from _copy nemo_gym_log_dir observability_enabled "
        "model_call_capture_dir token_id_capture component_name skip_verification skip_verification_reward "
        "sandbox_provider sandbox_settings strict"
    )
)


@dataclass(frozen=True, slots=True)
class Draft:
    """A top-level key that has the shape of a server; `fields` as they were written, container facts among them."""

    name: str
    type: ServerType
    implementation: str
    fields: Node
    beside: Mapping[str, Node]  # what stands next to the type: container facts
    place: Node

    @property
    def path(self) -> Path:
        return (self.name, self.type, self.implementation)


@dataclass(frozen=True, slots=True)
class FieldReference:
    """A `{type, name}` somewhere in a server's fields."""

    ref: ServerRef
    path: Path
    node: Node


def check_missing(tree: Node, findings: Findings) -> None:
    """Every `???` that is left, by its dotted path."""
    for path, node in walk(tree):
        if node.value == MISSING and isinstance(node.value, str):
            hint = f"Set it: {dotted(path)}=VALUE on the command line, or in env.yaml."
            findings.add(node, path, f"Missing mandatory value: {dotted(path)}", hint)


def find_drafts(tree: Node, findings: Findings, *, lenient: bool) -> list[Draft]:
    """The servers. One that is nearly a server is a problem (and looked at further), or with `lenient` left out."""
    drafts = []
    for name, node in tree.value.items():
        if name in RESERVED or not isinstance(node.value, dict):
            continue
        found: list[Problem] = []
        draft = _draft(name, node, found)
        if draft is not None and not (found and lenient):
            drafts.append(draft)
        for problem in found:
            if lenient:
                findings.notice(f"{name} is not a server and left out: {problem}")
            elif problem not in findings.problems:
                findings.problems.append(problem)
    return drafts


def in_doubt(key: str, node: Node) -> bool:
    """Whether a top-level value that made no draft was meant as a server all the same."""
    if key in RESERVED or node.value == MISSING:
        return False
    return node.value is BROKEN or (isinstance(node.value, dict) and any(one in node.value for one in SERVER_TYPES))


def find_references(draft: Draft, findings: Findings) -> list[FieldReference]:
    """Every reference in a server's fields, however deep in lists and mappings."""
    found = []
    for path, node in walk(draft.fields, draft.path):
        name = node.child("name") if isinstance(node.value, dict) else None
        type_ = node.child("type") if isinstance(node.value, dict) else None
        if type_ is None or not isinstance(type_.value, str):
            continue
        if type_.value in SERVER_TYPES:
            if name is not None and isinstance(name.value, str) and name.known:
                found.append(FieldReference(ServerRef(type=type_.value, name=name.value), path, node))
            elif name is None or (name.known and name.value is not None):
                seen = "no name" if name is None else describe(name.value)
                findings.add(name or node, path, f"a reference needs a name; found {seen}", "Write {type: …, name: …}.")
        elif set(node.value) == {"type", "name"} and (close := nearest(type_.value, SERVER_TYPES, 1)):
            hint = f"Did you mean `{close[0]}`?"
            findings.add(type_, (*path, "type"), f"`{type_.value[:60]}` is not a type of server", hint)
    return found


def check_reference(
    one: FieldReference,
    drafts: Sequence[Draft],
    doubtful: Collection[str],
    nameable: Collection[str],
    findings: Findings,
) -> str | None:
    """The name of the instance that is meant, under any of its names; None when there is none.

    A `doubtful` name is a server with a problem reported already; a `nameable` one is a configuration's that could
    be named on the command line.
    """
    there = [draft.name for draft in drafts if draft.type == one.ref.type]
    name = known_as(one.ref.name, there) or known_as(one.ref.name, doubtful)
    if name is not None:
        return name
    other = next((draft for draft in drafts if draft.name == one.ref.name), None)
    what = f"refers to an instance that is not there: type='{one.ref.type}' name='{one.ref.name}'"
    if other is not None:
        hint = f"`{other.name}` is one of {other.type}; write that type, or another name."
    elif one.ref.name in nameable:
        hint = f"Name it too: gym up … {one.ref.name}"
    elif there:
        available = f"Available {one.ref.type}: {', '.join(there[:10])}."
        hint = did_you_mean(one.ref.name, there) or available
    else:
        hint = f"There are no {one.ref.type} here; name one on the command line, or add its file with -c FILE."
    findings.add(one.node.child("name") or one.node, one.path, what, hint)
    return None


def shown_value(key: str, node: Node) -> str:
    """What was found, short, and never a secret."""
    value = node.value
    if isinstance(value, (dict, list)) or value is None:
        return describe(value)
    text = REDACTED if is_secret_key(key) and isinstance(value, str) else redact_text(str(value))
    return f"`{text[:60]}{'…' if len(text) > 60 else ''}`"


def _draft(name: str, node: Node, found: list[Problem]) -> Draft | None:
    types = [one for one in SERVER_TYPES if node.child(one) is not None]
    if not types:
        _check_type_name(name, node, found)
        return None
    if len(types) > 1:
        _tell(
            found, node, (name,), f"has {len(types)} types ({', '.join(types)}); a server has one", "Split it in two."
        )
        return None
    type_ = types[0]
    inner = node.value[type_]
    beside = {key: child for key, child in node.value.items() if key != type_}
    for key in list(beside):
        if key not in FACTS:
            close = did_you_mean(key, [*FACTS, *SERVER_TYPES])
            hint = close or f"Move it below {type_}, or take it out; {KNOWN_FACTS}."
            _tell(found, beside.pop(key), (name, key), "is not a key of a server", hint)
    if not inner.known:
        return None
    if not isinstance(inner.value, dict) or len(inner.value) != 1:
        count = len(inner.value) if isinstance(inner.value, dict) else describe(inner.value)
        names = f" ({', '.join(list(inner.value)[:5])})" if isinstance(inner.value, dict) and inner.value else ""
        what = f"must hold exactly one implementation; found {count}{names}"
        _tell(found, inner, (name, type_), what, f"Write {name}: {{{type_}: {{IMPLEMENTATION: {{…}}}}}}.")
        return None
    implementation, fields = next(iter(inner.value.items()))
    return _checked(Draft(name, type_, implementation, fields, beside, node), found)


def _checked(draft: Draft, found: list[Problem]) -> Draft | None:
    if not draft.fields.known:
        return None
    if draft.fields.value is None:
        draft = replace(draft, fields=replace(draft.fields, value={}))
    if not isinstance(draft.fields.value, dict):
        what = f"must be a mapping of fields; found {describe(draft.fields.value)}"
        _tell(found, draft.fields, draft.path, what, "Write its fields below it, one a line.")
        return None
    for key, wanted, accepts in _FIELDS:
        node = draft.fields.child(key)
        if node is not None and node.known and node.value is not None and not accepts(node.value):
            what = f"must be {wanted}; found {shown_value(key, node)}"
            _tell(found, node, (*draft.path, key), what, "Fix it, or take the key out.")
    datasets = draft.fields.child("datasets")
    for index, dataset in children(datasets) if datasets is not None and isinstance(datasets.value, list) else ():
        if dataset.known and not isinstance(dataset.value, dict):
            path = (*draft.path, "datasets", index)
            what = f"must be a mapping; found {describe(dataset.value)}"
            _tell(found, dataset, path, what, "Write {name: …, type: …, jsonl_fpath: …}.")
    return draft


def _check_type_name(name: str, node: Node, found: list[Problem]) -> None:
    """A mapping with an entry point two levels down is a server whose type is mistyped."""
    for key, child in node.value.items():
        inner = child.value.values() if isinstance(child.value, dict) else ()
        if any(one.child("entrypoint") is not None for one in inner) and (close := nearest(key, SERVER_TYPES, 1)):
            what = f"`{key[:60]}` is not a type of server"
            _tell(found, child, (name, key), what, f"Did you mean `{close[0]}`?")


def _tell(found: list[Problem], node: Node, path: Path, what: str, hint: str) -> None:
    found.append(Problem(what, node.file, node.line, dotted(path), hint))


def _is_integer(value: Any, low: int, high: int) -> bool:
    """A number, or the digits of one: what the environment gives is text."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return False
    text = str(value) if isinstance(value, str) or abs(value) <= high + 1 else ""
    return text.isdecimal() and len(text) < 10 and low <= int(text) <= high


def is_relative_file(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and not value.startswith(("/", "~")) and ".." not in value.split("/")


_FIELDS: tuple[tuple[str, str, Any], ...] = (
    ("host", "text", lambda value: isinstance(value, str)),
    ("port", "a number from 0 to 65535", lambda value: _is_integer(value, 0, 65535)),
    ("num_workers", "a number from 1 to 1000", lambda value: _is_integer(value, 1, 1000)),
    ("entrypoint", "the relative path of a file in the server's folder", is_relative_file),
    ("domain", "text", lambda value: isinstance(value, str)),
    ("description", "text", lambda value: isinstance(value, str)),
    ("datasets", "a list of data sets", lambda value: isinstance(value, list)),
)
