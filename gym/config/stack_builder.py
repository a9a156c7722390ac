"""From a checked draft to an `Instance`: container facts taken out, folder found, digests made."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gym.config.aliases import known_as
from gym.config.assets import is_file
from gym.config.catalog import ServerFolder, config_names, find_implementation
from gym.config.field_checks import (
    DOMAINS,
    Draft,
    check_reference,
    find_references,
    is_relative_file,
    shown_value,
)
from gym.config.grants import is_grant, read_grant
from gym.config.instance_keys import FACTS
from gym.config.model import ContainerFacts, Instance, Location, ServerRef
from gym.config.nodes import Findings, Node, children, did_you_mean, dotted, plain, set_at, walk
from gym.config.packed import packed_at, pin_services
from gym.config.read_sidecars import is_services, read_memory, read_services
from gym.config.server_sources import is_foreign, requirements_digest, source_digest
from gym.wire.sandbox import Grant
from gym.wire.server_types import KINDS

_PYTHON = re.compile(r"(?!3\.1$)(==|~=|[<>]=?)?\s*\d+(\.\d+){1,2}(\s*,\s*(!=|==|~=|[<>]=?)\s*\d+(\.\d+){0,2})*|~?/\S+")
OURS = frozenset(["python_version"])  # not a field of a server, so a wrong value is an error
_BLOCKS: dict[str, Callable[[Node], bool]] = {"sandbox": is_grant, "services": is_services}
_ONE_OF: dict[str, Callable[[Any], bool]] = {
    "launch": lambda value: value in ("auto", "sdk", "script"),
    "share": lambda value: isinstance(value, bool),
    "gpus": lambda value: value == "all" or (not isinstance(value, bool) and str(value).isdecimal()),
}
_WANTED = {
    "image": "the name of an image, such as `registry.example/mcqa:1.2`",
    "build": "the path of a folder with a Dockerfile",
    "replicas": "a number from 0 to 1000",
    "cpus": "a number above 0, such as 0.5",
    "memory": "a size, such as 512m or 2g",
    "env": "a mapping of names to texts",
    "secrets": "a list of names",
    "gpus": "a number, or `all`",
    "placement": "a mapping of labels of nodes to their values",
    "launch": "auto, sdk or script",
    "services": "a mapping of names to services",
    "share": "true or false",
    "ray": "a mapping with `resources`, `strategy` (as STRICT_SPREAD), or else `placement_group` and `bundle`",
    "python_version": 'a version in quotes, such as "3.12" (3.10 without them is the number 3.1), or the path of one',
}


@dataclass(frozen=True)
class Surroundings:
    """What building looks at beside the configuration itself."""

    cwd: Path
    folders: Sequence[ServerFolder]
    extras: Collection[str]  # of the SDK, as far as they are installed here
    doubtful: Collection[str] = ()  # servers that could not be read; their problems are reported
    without_models: bool = False


def build_instances(drafts: Sequence[Draft], around: Surroundings, findings: Findings) -> tuple[Instance, ...]:
    return tuple(_build(draft, drafts, around, findings) for draft in drafts)


def apply_replicas(
    instances: Sequence[Instance], wanted: Mapping[str, int], findings: Findings
) -> tuple[Instance, ...]:
    """The numbers that were typed over those that were written."""
    chosen: dict[str, int] = {}
    for name, count in wanted.items():
        known = known_as(name, [one.name for one in instances])
        if known is None:
            hint = did_you_mean(name, [one.name for one in instances]) or "`gym config` shows the names there are."
            findings.add(None, "--replicas", f"there is no instance `{name}`", hint)
        elif not 0 <= count <= 1000:
            findings.add(None, "--replicas", f"{name}: {count} is not a number from 0 to 1000", f"Write {name}=2.")
        else:
            chosen[known] = count
    return tuple(
        one.model_copy(update={"container": one.container.model_copy(update={"replicas": chosen[one.name]})})
        if one.name in chosen
        else one
        for one in instances
    )


def _build(draft: Draft, drafts: Sequence[Draft], around: Surroundings, findings: Findings) -> Instance:
    draft, references = _resolve_references(draft, drafts, around, findings)
    entrypoint = _text(draft, "entrypoint")
    entrypoint = entrypoint if is_relative_file(entrypoint) else "app.py"
    directory = find_implementation(draft.type, draft.implementation, around.folders)
    foreign = directory is not None and is_foreign(directory, entrypoint)
    fields, facts = _split(draft, foreign)
    asked, beside = facts.pop("sandbox", None), facts.pop("services", None)
    container = _container(draft, facts, directory, around, findings)
    if "num_workers" in fields and "replicas" not in facts:
        del fields["num_workers"]
    packed = packed_at(directory) if directory and not container.image else None
    if packed is not None:
        container = container.model_copy(update={"image": packed.image, "build": None})
    elif container.image:
        directory, foreign = None, False
    else:
        _check_directory(draft, directory, entrypoint, container, around, findings)
    bases = [around.cwd / Path(beside.file).parent, *([directory] if directory else []), around.cwd] if beside else []
    sidecars = read_services((draft.name, "services"), beside, bases, findings) if beside else ()
    digests = _digests(draft, directory, around, findings)
    _check_domain(draft, findings)
    return Instance(
        name=draft.name,
        type=draft.type,
        implementation=draft.implementation,
        fields={**fields, "entrypoint": entrypoint},
        references=references,
        container=container,
        sandbox=_with_build(read_grant((draft.name, "sandbox"), asked, findings), fields) if asked else None,
        sidecars=pin_services(sidecars, draft.name, directory),
        directory=directory,
        image_digest=packed.digest if packed else "",
        entrypoint=entrypoint,
        foreign=foreign,
        origin=Location(file=draft.place.file, line=draft.place.line),
        places={dotted(path): _place(node) for path, node in walk(draft.fields) if node.file},
        **digests,
    )


def _place(node: Node) -> str:
    return f"{node.file}:{node.line}" if node.line else node.file


def _with_build(grant: Grant | None, fields: Mapping[str, Any]) -> Grant | None:
    """A server that names a folder to build gets the right to build images; no other one does."""
    if grant is None or not fields.get("sandbox_build") or "build" in grant.model_fields_set:
        return grant
    return grant.model_copy(update={"build": True})


def _resolve_references(
    draft: Draft, drafts: Sequence[Draft], around: Surroundings, findings: Findings
) -> tuple[Draft, tuple[ServerRef, ...]]:
    """References by the names that are there; fields are rewritten where another name was used."""
    found: dict[tuple[str, str], ServerRef] = {}
    fields = draft.fields
    for one in find_references(draft, findings):
        nameable = config_names(around.folders, (one.ref.type,))
        unreported = Findings() if around.without_models and one.ref.type == "responses_api_models" else findings
        name = check_reference(one, drafts, around.doubtful, nameable, unreported)
        if name is None:
            continue
        found[one.ref.type, name] = ServerRef(type=one.ref.type, name=name)
        if name != one.ref.name:
            fields = set_at(fields, (*one.path[3:], "name"), replace(one.node, value=name))
    return replace(draft, fields=fields), tuple(found.values())


def _split(draft: Draft, foreign: bool) -> tuple[dict[str, Any], dict[str, Node]]:
    """Fields and container facts. A historical server may have a field that is called like a fact (`env: docker`)."""
    inside = {
        key: node
        for key, node in draft.fields.value.items()
        if key in FACTS
        and not (foreign and key not in OURS and not _accepts(key, node))
        and not (key == "env" and _is_text(node))
    }
    fields = {key: plain(node) for key, node in draft.fields.value.items() if key not in inside}
    facts = {**draft.beside, **inside}
    return fields, {key: node for key, node in facts.items() if node.known and node.value is not None}


def _is_text(node: Node) -> bool:
    return isinstance(node.value, str)


def _container(
    draft: Draft, facts: Mapping[str, Node], directory: Path | None, around: Surroundings, findings: Findings
) -> ContainerFacts:
    given: dict[str, Any] = {}
    for key, node in facts.items():
        if _accepts(key, node):
            given[key] = _fact(key, node)
        elif (part := _refused_part(key, node)) is not None:
            what = f"must be text; found {shown_value(str(part[0]), part[1])}"
            findings.add(part[1], (draft.name, key, part[0]), what, "Write it in quotes, or take it out.")
        else:
            what = f"must be {_WANTED[key]}; found {shown_value(key, node)}"
            findings.add(node, (draft.name, key), what, f"Fix it, or take `{key}` out.")
    workers = _text(draft, "num_workers")
    if "replicas" not in facts and workers.isdecimal() and 1 <= int(workers[:9]) <= 1000:
        given["replicas"] = int(workers)
    if "build" in given:
        given["build"] = _build_folder(draft, facts["build"], directory, around, findings)
    return ContainerFacts(**given)


def _accepts(key: str, node: Node) -> bool:
    """Whether a value is what a fact of that name may be."""
    value = plain(node)
    if key in _BLOCKS:
        return _BLOCKS[key](node)
    if key == "env":
        return isinstance(value, dict) and not any(isinstance(one, (dict, list, type(None))) for one in value.values())
    if key == "secrets":
        return isinstance(value, list) and all(isinstance(one, str) and one for one in value)
    if key in _ONE_OF:
        return _ONE_OF[key](value)
    if key == "python_version":
        return _PYTHON.fullmatch(str(value)) is not None
    if key == "memory":
        return read_memory(value) is not None
    if key in ("image", "build"):
        return isinstance(value, str) and bool(value.strip()) and not (key == "image" and re.search(r"\s", value))
    if isinstance(value, (bool, dict, list)) and not (key == "ray" and isinstance(value, dict)):
        return False
    try:
        ContainerFacts(**{key: value})
    except ValidationError:
        return False
    return True


def _refused_part(key: str, node: Node) -> tuple[str | int, Node] | None:
    """What is wrong in a mapping or list that itself is what it may be."""
    if key == "env" and isinstance(node.value, dict):
        return next((one for one in children(node) if isinstance(one[1].value, (dict, list, type(None)))), None)
    if key == "secrets" and isinstance(node.value, list):
        return next((one for one in children(node) if not (isinstance(one[1].value, str) and one[1].value)), None)
    return None


def _fact(key: str, node: Node) -> Any:
    value = plain(node)
    if key == "env":
        return {name: str(one).lower() if isinstance(one, bool) else str(one) for name, one in value.items()}
    return str(value) if key in ("memory", "python_version") else tuple(value) if key == "secrets" else value


def _build_folder(
    draft: Draft, node: Node, directory: Path | None, around: Surroundings, findings: Findings
) -> str | None:
    """Relative to the file that says so, to the server's folder, or to the working directory."""
    bases = [around.cwd / Path(node.file).parent, *([directory] if directory else []), around.cwd]
    for base in bases:
        folder = base / node.value
        if is_file(folder / "Dockerfile"):
            return str(folder.resolve())
    what = f"there is no Dockerfile in {shown_value('build', node)}"
    findings.add(node, (draft.name, "build"), what, "Name a folder that has one, relative to this file.")
    return None


def _check_directory(
    draft: Draft,
    directory: Path | None,
    entrypoint: str,
    container: ContainerFacts,
    around: Surroundings,
    findings: Findings,
) -> None:
    if container.build:
        return
    if directory is None:
        names = [one.name for one in around.folders if one.type == draft.type]
        kind = KINDS[draft.type]
        close = did_you_mean(draft.implementation, names)
        way = f"Make it: `gym new {kind} {draft.implementation}`, or give `image`."
        what = f"there is no server `{draft.implementation}` of type {draft.type}"
        findings.add(draft.place, draft.path, what, close or way)
    elif not is_file(directory / entrypoint):
        there = [one.name for one in directory.glob("*.py")]
        node = draft.fields.child("entrypoint") or draft.fields
        hint = did_you_mean(entrypoint, there) or "Write `entrypoint: FILE`, relative to the server's folder."
        findings.add(node, (*draft.path, "entrypoint"), f"there is no `{entrypoint}` in {directory}", hint)


def _digests(draft: Draft, directory: Path | None, around: Surroundings, findings: Findings) -> dict[str, str]:
    if directory is None:
        return {}
    try:
        return {
            "source_digest": source_digest(directory),
            "requirements_digest": requirements_digest(directory, around.extras),
        }
    except OSError as error:
        findings.add(
            draft.place, draft.path, f"{error.filename} cannot be read: {error.strerror}", "Check who may read it."
        )
        return {}


def _check_domain(draft: Draft, findings: Findings) -> None:
    domain = _text(draft, "domain")
    if domain and domain not in DOMAINS:
        close = did_you_mean(domain, sorted(DOMAINS)) or f"Known: {', '.join(sorted(DOMAINS))}."
        findings.notice(f"{dotted((*draft.path, 'domain'))}: `{domain[:60]}` is not a known domain. {close}")


def _text(draft: Draft, key: str) -> str:
    node = draft.fields.child(key)
    return str(node.value) if node is not None and node.known and isinstance(node.value, (str, int)) else ""
