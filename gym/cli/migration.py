"""A server's folder of a NeMo Gym checkout -> one of ours: what is copied where, and what is written differently.

A plan first, then the copy. The source is only ever read.
"""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gym.config import other_names, path_variants, portable_requirements
from gym.config.aliases import KIND, SERVER_TYPES
from gym.config.yaml_source import read_yaml
from gym.errors import GymError, UserError
from gym.wire.server_types import ServerType

LEFT_OUT: Final = (".venv", "venv", "__pycache__", "*.pyc", ".git", ".*_cache", "*.egg-info", "results", "cache")
_PATH: Final = re.compile(
    r"(?<![\w/.])(?P<type>" + "|".join(SERVER_TYPES) + r")/(?P<name>[\w.-]+)/(?P<rest>[\w./{}$-]*)"
)


@dataclass
class Move:
    """One server: from where to where, and what its copy says otherwise."""

    type: ServerType
    source: Path
    target: Path
    texts: dict[str, str] = field(default_factory=dict)  # files that are written instead of copied
    dropped: tuple[str, ...] = ()  # files that are not copied
    changes: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what a person has to look at

    @property
    def name(self) -> str:
        return self.source.name


def find_sources(folder: Path) -> list[tuple[ServerType, Path]]:
    """The folder of one server, of all servers of a type, or of a whole checkout."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder.", "gym migrate ~/Gym/resources_servers/my_env")
    folder = Path(os.path.realpath(folder))
    for type_ in SERVER_TYPES:
        if folder.parent.name == type_:
            return [(type_, folder)]
        if folder.name == type_:
            return [(type_, one) for one in _servers_in(folder)]
    found = [(type_, one) for type_ in SERVER_TYPES for one in _servers_in(folder / type_)]
    if not found:
        kinds = " or ".join(f"{one}/" for one in SERVER_TYPES)
        hint = f"Name a checkout with {kinds} in it, or a folder in one of them."
        raise UserError(f"{folder} holds no servers of NeMo Gym.", hint)
    return found


def plan_move(type_: ServerType, source: Path, servers: Path) -> Move:
    """`servers` is the folder that will hold `resources/NAME`, `agents/NAME`, `models/NAME`."""
    move = Move(type_, source, servers / KIND[type_] / source.name)
    move.changes.append(f"layout: {type_}/{source.name} -> {'/'.join(move.target.parts[-3:])}")
    _plan_requirements(move)
    for path in sorted((source / "configs").rglob("*.y*ml")):
        _plan_config(move, path)
    move.notes += _paths_in_code(source)
    return move


def is_there_already(move: Move, known: Iterable[str]) -> str:
    """The name under which we have it, or nothing."""
    names = frozenset(known)
    return next((one for one in (move.name, *other_names(move.name, move.type)) if one in names), "")


def carry_out(move: Move) -> None:
    """Beside its place, then renamed: half a server is worse than none."""
    if move.target.exists():
        raise UserError(f"{move.target} is already there; nothing was changed.", "Move it away first, or use --to.")
    unfinished = move.target.with_name(f".{move.name}.{os.getpid()}")
    try:
        ignore = shutil.ignore_patterns(*LEFT_OUT)
        shutil.copytree(move.source, unfinished, ignore=ignore, ignore_dangling_symlinks=True)
        for name in move.dropped:
            (unfinished / name).unlink(missing_ok=True)
        for name, text in move.texts.items():
            (unfinished / name).write_text(text, encoding="utf-8")
        unfinished.rename(move.target)
    except (OSError, shutil.Error) as error:
        raise UserError(f"{move.target} cannot be written: {error}", "The source is as it was.") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _servers_in(folder: Path) -> list[Path]:
    found = sorted(folder.iterdir()) if folder.is_dir() else []
    return [one for one in found if (one / "app.py").is_file() or (one / "configs").is_dir()]


def _plan_requirements(move: Move) -> None:
    lines = portable_requirements(move.source, contained=True)
    if lines is None:
        return
    upstream = next((line for line in lines if re.match(r"nemo[-_.]gym", line, re.I)), "nemo-gym")
    if (move.source / "requirements.txt").is_file():
        move.changes.append(f"requirements.txt: the repository two folders up -> {upstream}")
    else:
        move.dropped = ("pyproject.toml",)
        move.changes.append(f"pyproject.toml -> requirements.txt: its dependencies, {upstream} from the registry")
        move.notes += _lost_with_project(move.source / "pyproject.toml")
    move.texts["requirements.txt"] = "".join(f"{line}\n" for line in lines)


def _lost_with_project(path: Path) -> Iterator[str]:
    tree = tomllib.loads(path.read_text(encoding="utf-8"))
    if floor := tree.get("project", {}).get("requires-python"):
        yield f"pyproject.toml asked for Python {floor}: write `python_version` beside `entrypoint` if that is needed"
    sources = tree.get("tool", {}).get("uv", {}).get("sources", {})
    for name in sources:
        if not re.fullmatch(r"nemo[-_.]gym", name, re.I):
            yield f"pyproject.toml takes {name} from {sources[name]}: write that into requirements.txt"


def _plan_config(move: Move, path: Path) -> None:
    name = path.relative_to(move.source).as_posix()
    try:
        text = path.read_text(encoding="utf-8")
        read_yaml(path, name)
    except (GymError, OSError, ValueError) as error:
        move.notes.append(f"{name} is copied as it is: {str(error).splitlines()[0]}")
        return
    changed, count = _PATH.subn(_our_path, text)
    if changed != text:
        move.texts[name] = changed
        move.changes.append(f"{name}: {count} path{'' if count == 1 else 's'} -> servers/...")


def _our_path(found: re.Match[str]) -> str:
    """The variant that is laid out as ours."""
    variants: Sequence[str] = path_variants(found[0])
    return next((one for one in variants if one.startswith("servers/")), found[0])


def _paths_in_code(source: Path) -> Iterator[str]:
    for path in sorted(source.rglob("*.py")):
        relative = path.relative_to(source)
        if any(part.startswith(".") or part in LEFT_OUT for part in relative.parts):
            continue
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        for number, line in enumerate(lines, 1):
            if found := _PATH.search(line):
                yield f"{relative}:{number} names {found[0]}: a server runs in its own folder, so say {found['rest']}"
