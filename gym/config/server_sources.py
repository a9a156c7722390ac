"""What a server's folder says about running it: its digest, its requirements, and for which toolkit it was written."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import tomllib
from collections.abc import Collection, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_FILES = frozenset(["requirements.txt", "pyproject.toml", "Dockerfile", "overrides.txt", "apt.txt"])
_SKIPPED = frozenset(["tests", "data", "venv", "node_modules", "build", "dist"])
_SDK = re.compile(
    r"(?:-e\s+|--editable\s+)?compose[-_.]gym\s*(?:\[(?P<extras>[^\]]*)\])?\s*(?:(?:@|[<>=!~]=?)[^;]*)?(?:;.*)?", re.I
)
_UPSTREAM = re.compile(r"(?<![\w.-])nemo[-_.]gym(?![\w])", re.I)
_EXTRAS = {"upstream": "aiohttp", "mcp": "mcp"}
# What extras stand for that settings of a stack or fields of an instance ask for, and no folder of a server names.
EXTRA_LINES = {
    "otel": ("opentelemetry-sdk>=1.30,<2", "opentelemetry-exporter-otlp-proto-http>=1.30,<2"),
    "redis": ("redis>=5.2,<9",),
}


def satisfied_extras() -> frozenset[str]:
    """The extras of the SDK that are installed here."""
    return frozenset(extra for extra, module in _EXTRAS.items() if find_spec(module) is not None)


def source_digest(directory: Path) -> str:
    """Of every file a server runs from; tests, data and caches do not matter."""
    digest = hashlib.sha256()
    for path in sorted(_source_files(directory), key=lambda one: one.as_posix()):
        name, content = path.relative_to(directory).as_posix().encode(), path.read_bytes()
        digest.update(b"%d %d " % (len(name), len(content)) + name + content)
    return digest.hexdigest()


def requirements_digest(directory: Path, extras: Collection[str]) -> str:
    """Of what the folder asks for beyond the SDK and the `extras` that are there; "" when that is nothing."""
    lines = [line for line in requirement_lines(directory) if not is_satisfied(line, extras)]
    if not lines:
        return ""
    return hashlib.sha256("\n".join([*lines, *_text_lines(directory / "overrides.txt")]).encode()).hexdigest()


def extra_lines(extras: Collection[str]) -> tuple[str, ...]:
    """What to install for these extras of the SDK."""
    return tuple(line for extra in extras for line in EXTRA_LINES[extra])


def is_satisfied(line: str, extras: Collection[str]) -> bool:
    """A requirement that names the SDK alone, with no extra but those."""
    found = _SDK.fullmatch(line.strip())
    asked = (found["extras"] or "").split(",") if found else ()
    return found is not None and all(extra.strip() in extras for extra in asked if extra.strip())


def requirement_lines(directory: Path) -> tuple[str, ...]:
    """What `requirements.txt` asks for, or without one what the `[project]` of a `pyproject.toml` depends on."""
    if (directory / "requirements.txt").is_file():
        return _text_lines(directory / "requirements.txt")
    try:
        project = tomllib.loads((directory / "pyproject.toml").read_text(encoding="utf-8")).get("project")
    except (OSError, ValueError, RecursionError):
        return ()
    listed: Any = project.get("dependencies") if isinstance(project, dict) else None
    return tuple(one for one in listed if isinstance(one, str)) if isinstance(listed, list) else ()


def is_foreign(directory: Path, entrypoint: str) -> bool:
    """Written against `nemo_gym`: it is required, or the entry point imports it."""
    if any(_UPSTREAM.search(line) for line in requirement_lines(directory)):
        return True
    try:
        tree = ast.parse((directory / entrypoint).read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(name.split(".")[0] == "nemo_gym" for node in ast.walk(tree) for name in _imported(node))


def _source_files(directory: Path) -> Iterator[Path]:
    for folder, names, files in os.walk(directory):
        names[:] = [name for name in names if name not in _SKIPPED and not name.startswith((".", "__pycache__"))]
        for name in files:
            path = Path(folder) / name
            if (name.endswith(".py") or name in _FILES) and path.is_file():
                yield path


def _text_lines(path: Path) -> tuple[str, ...]:
    try:
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return ()
    lines = (re.sub(r"(^|\s)#.*", "", line).strip() for line in text.splitlines())
    return tuple(line for line in lines if line)


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        yield node.module
