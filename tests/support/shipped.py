"""The servers of the checkout, as a test drives them: their folders, their rows, their apps."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from gym.config import find_server, own_fields
from gym.config.default_agent import add_default_agents
from gym.config.nodes import plain
from gym.config.read_sidecars import services_of
from gym.config.yaml_source import read_yaml
from gym.server import ServerApp
from gym.server.serve import load_app

SERVERS = Path(__file__).parents[2] / "servers"
RESOURCES = sorted(path.parent.name for path in (SERVERS / "resources").glob("*/app.py"))


def folder_of(name: str, kind: str = "resources") -> Path:
    return SERVERS / kind / name


def rows_of(name: str) -> list[dict[str, Any]]:
    text = (folder_of(name) / "data" / "example.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def config_of(path: Path) -> dict[str, Any]:
    """What a configuration means by itself: the agent that it need not name is in it."""
    document: dict[str, Any] = plain(add_default_agents(read_yaml(path, str(path))))
    return document


@contextmanager
def shipped_app(
    name: str, *, kind: str = "resources", document: Mapping[str, Any] | None = None, **fields: Any
) -> Iterator[ServerApp]:
    """The app of a server's folder, configured. What loading it left in this process is taken away again."""
    paths, modules = list(sys.path), set(sys.modules)
    importlib.invalidate_caches()
    try:
        loaded: ServerApp = load_app(folder_of(name, kind) / "app.py")
        yield ServerApp(loaded._make, fields, {"name": name, "document": document or {}})
    finally:
        sys.path[:] = paths
        for added in set(sys.modules) - modules:
            origin = getattr(sys.modules[added], "__file__", None) or ""
            if Path(origin).is_relative_to(SERVERS):
                del sys.modules[added]


def why_not_here(name: str) -> str:
    """What keeps a server from running in the tests' own process; empty for most."""
    entry = find_server(name, [SERVERS.parent])
    if "sandbox" in own_fields(entry):
        return "it needs a sandbox: `gym test` brings one"
    if services_of(entry):
        return "it needs its services: `gym test` starts them"
    missing = _missing_packages(name)
    return f"`gym test` runs it in its own environment, which has {missing}" if missing else ""


def _missing_packages(name: str) -> list[str]:
    lines = (line.partition("#")[0].strip() for line in (folder_of(name) / "requirements.txt").read_text().splitlines())
    wanted = [Requirement(line) for line in lines if line]
    return [str(one) for one in wanted if not _is_installed(one)]


def _is_installed(wanted: Requirement) -> bool:
    try:
        return wanted.name == "compose-gym" or wanted.specifier.contains(version(wanted.name))
    except PackageNotFoundError:
        return False
