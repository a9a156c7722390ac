"""What a server written against nemo_gym asks for, as it can be installed outside of the repository it came from."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from gym.config.server_sources import requirement_lines

_NAME: Final = r"nemo[-_.]gym"
_EXTRAS: Final = r"(?P<extras>\[[^\]]*\])?"
_EDITABLE: Final = r"(?:-e|--editable)[\s=]+"
_NAMED: Final = re.compile(
    rf"(?:{_EDITABLE})?{_NAME}\s*{_EXTRAS}\s*@\s*(?P<path>(?:file://)?[./][^\s;]*)(?P<rest>.*)", re.I
)
_CLIMBING: Final = re.compile(rf"(?:{_EDITABLE})?(?P<path>\.\.(?:/\.\.)+/?){_EXTRAS}(?P<rest>)", re.I)


def portable_requirements(directory: Path, *, contained: bool = False) -> tuple[str, ...] | None:
    """The lines to install instead of what the folder says, or None where that can be installed as it is.

    `-e nemo-gym[dev] @ ../../` means the repository two folders up. Where that is not there, or not in the build
    context (`contained`), it is the package of that name.
    """
    lines = requirement_lines(directory)
    found = tuple(_portable(line, directory, contained=contained) for line in lines)
    if found != lines:
        return found
    return lines if _is_sourced_by_path(directory, contained=contained) else None


def _portable(line: str, directory: Path, *, contained: bool) -> str:
    named = _NAMED.fullmatch(line) or _CLIMBING.fullmatch(line)
    if named is None or (not contained and _is_repository(directory, named["path"])):
        return line
    return f"nemo-gym{named['extras'] or ''}{named['rest']}"


def _is_sourced_by_path(directory: Path, *, contained: bool) -> bool:
    """A `pyproject.toml` says so in `[tool.uv.sources]`."""
    if (directory / "requirements.txt").is_file():
        return False
    return any(contained or not _is_repository(directory, path) for path in _source_paths(directory))


def _source_paths(directory: Path) -> Iterator[str]:
    tree: Any = _read(directory)
    for key in ("tool", "uv", "sources"):
        tree = tree.get(key, {}) if isinstance(tree, dict) else {}
    for name, source in tree.items() if isinstance(tree, dict) else ():
        if re.fullmatch(_NAME, name, re.I) and isinstance(source, dict) and isinstance(source.get("path"), str):
            yield source["path"]


def _is_repository(directory: Path, path: str) -> bool:
    """The package's own sources lie there."""
    project = _read(directory / path.removeprefix("file://")).get("project")
    return isinstance(project, dict) and re.fullmatch(_NAME, str(project.get("name")), re.I) is not None


def _read(folder: Path) -> dict[str, Any]:
    try:
        return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
