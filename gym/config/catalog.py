"""The servers there are: their folders below the search roots, what they say of themselves, and their short names.

A folder that cannot be read is listed all the same; only asking for it by name is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gym.config.aliases import KIND, SERVER_TYPES, other_names
from gym.config.assets import YAML_SUFFIXES, list_folder, split_folder, unique_paths
from gym.config.instance_keys import FACTS
from gym.config.nodes import Node, did_you_mean, find, plain, walk
from gym.errors import ConfigError, UserError
from gym.wire.server_types import ServerType


@dataclass(frozen=True)
class CatalogEntry:
    """One server as `gym list` shows it."""

    name: str
    type: ServerType
    implementation: str
    directory: Path
    config: Path | None = None
    domain: str = ""
    kind: str = ""  # what a verifier stands on: rule, judge, sandbox, network; or example
    description: str = ""
    licence: str = ""
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class ServerFolder:
    """A server's folder below a root; `type` is known from where it stands."""

    type: ServerType
    directory: Path
    called: str = ""  # by its configuration, where the folder itself may be called anything

    @property
    def name(self) -> str:
        return self.called or self.directory.name

    @cached_property
    def configs(self) -> tuple[Path, ...]:
        """Its YAML files, the one that bears its name first."""
        files = [one for one in list_folder(self.directory / "configs") if one.suffix in YAML_SUFFIXES]
        files += [one for one in (self.directory / f"{self.name}{suffix}" for suffix in YAML_SUFFIXES) if one.is_file()]
        return tuple(sorted(files, key=lambda one: (one.stem != self.name, one.name)))


def list_servers(roots: Iterable[Path]) -> tuple[CatalogEntry, ...]:
    """Every server below the roots, by type and name; where two share a name, the first root's."""
    entries: dict[tuple[ServerType, str], CatalogEntry] = {}
    for folder in server_folders(roots):
        if (folder.type, folder.name) not in entries:
            entries[folder.type, folder.name] = read_server(folder)
    return tuple(sorted(entries.values(), key=lambda one: (SERVER_TYPES.index(one.type), one.name)))


def find_server(name: str, roots: Iterable[Path]) -> CatalogEntry:
    """The server of that name or alias, or in that folder; UserError with the nearest names. A folder of that name is
    read alone."""
    name, folder = split_folder(name, Path.cwd())
    roots = (*folder, *roots)
    own = [one for one in server_folders(roots) if one.name == name]
    if own and (entry := read_server(min(own, key=lambda one: SERVER_TYPES.index(one.type)))).name == name:
        return entry
    entries = list_servers(roots)
    for wanted in (name, *other_names(name)):
        for entry in entries:
            if entry.name == wanted or (entry.config is not None and entry.config.stem == wanted):
                return entry
    from gym.config.unlisted import unlisted_problem  # noqa: PLC0415  (it reads YAML)

    if problem := unlisted_problem(name, roots):
        raise ConfigError([problem])
    raise UserError(f"There is no server `{name}`.", _where_else(name, entries))


def _where_else(name: str, entries: Sequence[CatalogEntry]) -> str:
    """A server may have configurations with names of their own; else the nearest name may be meant."""
    names = [known for one in entries for known in (one.name, *one.aliases)]
    for entry in entries:
        if (entry.directory / "configs" / f"{name}.yaml").is_file():
            return f"It is a configuration of {entry.name}: gym up {name}, gym info {entry.name}."
    return did_you_mean(name, names) or "`gym list` shows the servers there are."


def own_fields(entry: CatalogEntry) -> dict[str, object]:
    """What a server's configuration says of it, as it is written there: nothing merged, nothing filled in."""
    if entry.config is None:
        return {}
    return _fields(_read(entry.config), ServerFolder(entry.type, entry.directory, entry.implementation))


def own_facts(entry: CatalogEntry) -> dict[str, Node]:
    """The keys of its container that a server's own instance has, beside its type or among its fields."""
    folder = ServerFolder(entry.type, entry.directory, entry.implementation)
    block, fields = _own_block(_read(entry.config), folder) if entry.config else (None, None)
    found: dict[str, Node] = {}
    for node in (block, fields):
        if node is not None and isinstance(node.value, dict):
            found |= {key: child for key, child in node.value.items() if key in FACTS}
    return found


def find_configs(
    name: str, folders: Iterable[ServerFolder], types: tuple[ServerType, ...] = SERVER_TYPES
) -> tuple[Path, ...]:
    """The files a short name may stand for, best first: a server's own, then any file so named, then its aliases'."""
    folders = [one for one in folders if one.type in types]
    for wanted in (name, *other_names(name, types[0] if len(types) == 1 else None)):
        files = [(path, folder) for folder in folders for path in folder.configs if path.stem == wanted]
        files.sort(key=lambda pair: pair[1].name != wanted)
        if files:
            return unique_paths(path for path, _ in files)
    return ()


def config_names(folders: Iterable[ServerFolder], types: tuple[ServerType, ...] = SERVER_TYPES) -> list[str]:
    """Every short name there is, for the nearest one."""
    stems = [path.stem for folder in folders if folder.type in types for path in folder.configs]
    return list(dict.fromkeys([*stems, *(alias for stem in stems for alias in other_names(stem))]))


def server_folders(roots: Iterable[Path]) -> Iterator[ServerFolder]:
    """In every root: `servers/agents/*`, `agents/*`, `responses_api_agents/*` and so on; then folders on their own."""
    seen: set[Path] = set()
    for root in roots:
        for folder in [*_placed_folders(root), *_loose_folders(root)]:
            real = unique_paths([folder.directory])[0]
            if real not in seen:
                seen.add(real)
                yield folder


def find_implementation(type_: ServerType, name: str, folders: Iterable[ServerFolder]) -> Path | None:
    """The folder of an implementation, under the name that was written or else another of its names."""
    there = {one.name: one.directory for one in reversed(list(folders)) if one.type == type_}
    return next((there[one] for one in (name, *other_names(name, type_)) if one in there), None)


def _placed_folders(root: Path) -> Iterator[ServerFolder]:
    for type_ in SERVER_TYPES:
        for place in (f"servers/{KIND[type_]}", KIND[type_], type_):
            for child in list_folder(root / place):
                if _is_server(child):
                    yield ServerFolder(type_, child)


def _loose_folders(root: Path) -> Iterator[ServerFolder]:
    """A server's folder right below a root, or the root itself; its own configuration says of which type it is."""
    for child in (*list_folder(root), root):
        if child.name.startswith("."):
            continue
        config = child / "configs" / f"{child.name}.yaml"
        if config.is_file():
            if type_ := _type_of(config, child.name):
                yield ServerFolder(type_, child)
        elif (child / "app.py").is_file():
            yield from _flat_folder(child)


def _flat_folder(folder: Path) -> Iterator[ServerFolder]:
    """A project of few files: `NAME.yaml` beside its app.py, in a folder of any name."""
    for config in list_folder(folder):
        if config.suffix in YAML_SUFFIXES and (type_ := _type_of(config, config.stem)):
            yield ServerFolder(type_, folder, config.stem)


def _type_of(config: Path, implementation: str) -> ServerType | None:
    return next((one for one in SERVER_TYPES if _defines(config, one, implementation)), None)


def _defines(config: Path, type_: ServerType, implementation: str) -> bool:
    tree = _read(config)
    return any(find(one, (type_, implementation)) is not None for one in tree.value.values())


def _is_server(folder: Path) -> bool:
    if folder.name.startswith((".", "_")):
        return False
    return any((folder / name).exists() for name in ("configs", "app.py", "requirements.txt"))


def _read(config: Path) -> Node:
    from gym.config.yaml_source import read_yaml  # noqa: PLC0415  (20 ms, and a console reads no catalogue at its start)

    try:
        return read_yaml(config, str(config))
    except ConfigError:
        return Node({})


def read_server(folder: ServerFolder) -> CatalogEntry:
    """What a folder says of itself."""
    config = folder.configs[0] if folder.configs else None
    tree = _read(config) if config else Node({})
    fields = _fields(tree, folder)
    readme = _readme(folder.directory)
    return CatalogEntry(
        name=folder.name,
        type=folder.type,
        implementation=folder.name,
        directory=folder.directory,
        config=config,
        domain=str(fields.get("domain") or ""),
        kind=str(fields.get("kind") or ""),
        description=str(fields.get("description") or _first_sentence(readme)),
        licence=_licence(readme, tree),
        aliases=other_names(folder.name, folder.type),
    )


def _fields(tree: Node, folder: ServerFolder) -> dict[str, object]:
    fields = _own_block(tree, folder)[1]
    found: dict[str, object] = plain(fields) if fields is not None else {}
    return found


def _own_block(tree: Node, folder: ServerFolder) -> tuple[Node | None, Node | None]:
    """The instance that is this server, and its fields."""
    names = (folder.name, *other_names(folder.name, folder.type))
    for instance in tree.value.values():
        for name in names:
            fields = find(instance, (folder.type, name))
            if fields is not None and isinstance(fields.value, dict):
                return instance, fields
    return None, None


def _readme(folder: Path) -> str:
    try:
        return (folder / "README.md").read_text(encoding="utf-8", errors="replace")[:20_000]
    except OSError:
        return ""


def _first_sentence(readme: str) -> str:
    """The first paragraph's first line; the title only where there is nothing else."""
    lines = [line.strip() for line in readme.splitlines() if line.strip()]
    prose = [line for line in lines if not line.startswith(("#", "!", "[", "<", "```", "|", "---"))]
    return (prose or [lines[0].lstrip("# ")] if lines else [""])[0]


def _licence(readme: str, tree: Node) -> str:
    """The licence in the README; else the licences of all data sets that the configuration names."""
    found = re.search(r"^[\s#*_>-]*licen[cs]e[\s*_]*:?[\s*_]*(?P<name>[^\s*:].*?)[\s*_.]*$", readme, re.I | re.M)
    if found:
        return found["name"]
    licences = (node.child("license") for _, node in walk(tree) if isinstance(node.value, dict))
    named = dict.fromkeys(str(one.value) for one in licences if one is not None and one.value)
    return ", ".join(named)
