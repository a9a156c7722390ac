"""Packages whose front page names much and loads little: a module is imported when a name of it is asked for."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def on_first_use(package: str) -> Callable[[str], Any]:
    """A package's `__getattr__`: the imports below its `if TYPE_CHECKING:` say where each name lives."""
    module = sys.modules[package]
    homes: dict[str, str] = {}

    def __getattr__(name: str) -> Any:  # noqa: N807  (it is what the package calls so)
        if not homes:
            homes.update(_homes(Path(str(module.__file__))))
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(homes[name]), name)
        setattr(module, name, found)
        return found

    return __getattr__


def _homes(path: Path) -> dict[str, str]:
    guarded = [one for one in ast.parse(path.read_text("utf-8")).body if isinstance(one, ast.If)]
    return {
        alias.name: str(one.module)
        for block in guarded
        for one in block.body
        if isinstance(one, ast.ImportFrom)
        for alias in one.names
    }
