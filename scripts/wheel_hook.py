"""Puts servers/, templates/, compose/ and the locks into the wheel. An editable install reads them from the checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ASSETS = ("templates", "servers", "compose", "requirements", "Dockerfile.base")


class AssetsHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "standard":
            root = Path(self.root)
            build_data["force_include"].update({str(root / name): f"gym/_assets/{name}" for name in ASSETS})
