"""Puts servers/, templates/, compose/, locks and audits into the wheel; an editable install has the checkout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ASSETS = ("templates", "servers", "compose", "requirements", "Dockerfile.base", "docs/audits.md")


class AssetsHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "standard":
            root = Path(self.root)
            files = [path for name in ASSETS for path in _files(root / name)]
            build_data["force_include"].update({str(path): f"gym/_assets/{path.relative_to(root)}" for path in files})


def _files(path: Path) -> Iterator[Path]:
    """Without caches and hidden folders: included by force, they would come along."""
    if path.is_file():
        yield path
    elif path.is_dir() and not path.name.startswith((".", "__pycache__")):
        for child in sorted(path.iterdir()):
            yield from _files(child)
