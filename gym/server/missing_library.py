"""Says what a server's environment lacks: a library that its code imports, or another version of it."""

from __future__ import annotations

import importlib.metadata
import platform
import traceback
from pathlib import Path

from gym.errors import UserError


def missing_library(error: ImportError, app: Path) -> UserError | None:
    """None where a module of the server's own is missing: that stays the bug that it is."""
    name = (error.name or "").partition(".")[0]
    folder = app.resolve().parent
    if not name or (folder / name).is_dir() or (folder / f"{name}.py").is_file():
        return None
    return UserError(*_explain(error, name, folder))


def _explain(error: ImportError, name: str, folder: Path) -> tuple[str, str]:
    here = f"its environment (Python {platform.python_version()})"
    hint = "in requirements.txt beside app.py; a Python of its own is `python_version:` in its configuration"
    if isinstance(error, ModuleNotFoundError) and error.name == name:
        return f"{_place(error, folder)}: {here} has no `{name}`.", f"Name its package {hint}."
    return f"{_place(error, folder)}: {error.msg}; {here} has {name} {_version(name)}.", f"Name another version {hint}."


def _place(error: ImportError, folder: Path) -> str:
    """The last line of the server's own, and the library that wanted it, where it is another."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if "importlib" not in one.filename]
    own = [one for one in frames if Path(one.filename).parent == folder]
    place = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else "app.py"
    return place if not frames or frames[-1] in own else f"{place}, by way of {frames[-1].filename}"


def _version(name: str) -> str:
    found = importlib.metadata.packages_distributions().get(name) or []
    return importlib.metadata.version(found[0]) if found else "of no known version"
