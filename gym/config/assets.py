"""Where servers and templates are looked for: the working directory, GYM_PATH, and what came with the package."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from gym import labels
from gym.files import own_root

YAML_SUFFIXES: Final = (".yaml", ".yml")
_EXTRA_ROOTS = "NEMO_GYM_EXTRA_ROOTS"


def search_roots(cwd: Path, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The folders that relative paths and server names are looked up in, first come first served."""
    named = [
        Path(entry).expanduser()
        for variable in (labels.ENV_PATH, _EXTRA_ROOTS)
        for entry in environ.get(variable, "").split(os.pathsep)
        if entry
    ]
    return unique_paths([cwd, *(cwd / one for one in named), own_root()])


def split_folder(name: str, cwd: Path) -> tuple[str, tuple[Path, ...]]:
    """`letters/`, as a shell completes it, or `.`: the name of the server in that folder, and where to look first."""
    folder = Path(os.path.abspath(cwd / name))  # noqa: PTH100 (a link keeps the name that it has here)
    if not (name in (".", "..") or "/" in name) or not (is_folder(folder / "configs") or is_file(folder / "app.py")):
        return name, ()
    return folder.name, (folder,)


def unique_paths(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(Path(os.path.realpath(path)) for path in paths))


def shown_path(path: Path, cwd: Path) -> str:
    """A path as a person wants to read it: relative where that is shorter, whole where it would climb."""
    real, here = os.path.realpath(path), os.path.realpath(cwd)
    return os.path.relpath(real, here) if real.startswith(here.rstrip(os.sep) + os.sep) else str(path)


def is_file(path: Path) -> bool:
    """Also False for a path that no system takes: too long, a zero byte in it, behind a closed folder."""
    return os.path.isfile(path)  # noqa: PTH113 (Path.is_file raises for some of these)


def is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112 (as above)


def list_folder(folder: Path) -> list[Path]:
    """What is in a folder, by name; nothing where it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except (OSError, ValueError):
        return []
