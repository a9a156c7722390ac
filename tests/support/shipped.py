"""The servers of the checkout, as a test drives them: their folders, their rows, their apps."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gym.server import ServerApp
from gym.server.serve import load_app

SERVERS = Path(__file__).parents[2] / "servers"
RESOURCES = sorted(path.parent.name for path in (SERVERS / "resources").glob("*/app.py"))


def folder_of(name: str, kind: str = "resources") -> Path:
    return SERVERS / kind / name


def rows_of(name: str) -> list[dict[str, Any]]:
    text = (folder_of(name) / "data" / "example.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


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
