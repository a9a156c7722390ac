"""Says what a server's environment lacks: a library that its code imports, or another version of it."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import sys
import traceback
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

import gym
from gym import __version__
from gym.errors import UserError

_ROOT = Path(gym.__file__).parent
_PARTS = ("server", "sandbox", "wire", "testing", "")
_NAMED = re.compile(r"cannot import name '(\w+)'")


def missing_library(error: ImportError, app: Path) -> UserError | None:
    """None where a module of the server's own is missing: that stays the bug that it is."""
    name = (error.name or "").partition(".")[0]
    folder = app.resolve().parent
    if name == "gym":
        return UserError(f"{_place(error, folder)}: {_of_ours(error)}")
    if not name or (folder / name).is_dir() or (folder / f"{name}.py").is_file():
        return None
    return UserError(*_explain(error, name, folder))


def _explain(error: ImportError, name: str, folder: Path) -> tuple[str, str]:
    here = f"its environment (Python {platform.python_version()})"
    hint = "in requirements.txt beside app.py; a Python of its own is `python_version:` in its configuration"
    if isinstance(error, ModuleNotFoundError) and error.name == name:
        return f"{_place(error, folder)}: {here} has no `{name}`.", f"Name its package {hint}."
    return f"{_place(error, folder)}: {error.msg}; {here} has {name} {_version(name)}.", f"Name another version {hint}."


def _of_ours(error: ImportError) -> str:
    """`gym.server has no Judge: from gym.server.judge import Judge`."""
    module, wanted = str(error.name), _NAMED.search(str(error.msg))
    if wanted is None:
        module, _, missing = module.rpartition(".")
        return f"{module} has no module {missing}{_nearest(missing, _modules_of(module))}"
    missing = wanted.group(1)
    if home := _home_of(missing):
        return f"{module} has no {missing}: from {home} import {missing}"
    return f"{module} has no {missing}{_nearest(missing, getattr(sys.modules.get(module), '__all__', []))}"


def _home_of(name: str) -> str:
    """The module of ours that defines it: one that servers are written against first."""
    defines = re.compile(rf"^(?:class|def|async def) {re.escape(name)}\b|^{re.escape(name)}\b[^=\n]*=", re.MULTILINE)
    for part in _PARTS:
        for file in sorted((_ROOT / part).rglob("*.py")):
            home = ("gym", *file.relative_to(_ROOT).with_suffix("").parts)
            if file.stem == name:  # a module
                return ".".join(home[:-1])
            if not name.startswith("_") and defines.search(file.read_text("utf-8")):
                return ".".join(home).removesuffix(".__init__")
    return ""


def _modules_of(package: str) -> list[str]:
    return [one.stem for one in _ROOT.joinpath(*package.split(".")[1:]).glob("*")]


def _nearest(name: str, known: Iterable[str]) -> str:
    near = get_close_matches(name, [one for one in known if not one.startswith("_")], 1)
    return f": did you mean {near[0]}?" if near else f", in this version of it ({__version__})"


def _place(error: ImportError, folder: Path) -> str:
    """The last line of the server's own, and the library that wanted it, where it is another."""
    frames = [one for one in traceback.extract_tb(error.__traceback__) if "importlib" not in one.filename]
    own = [one for one in frames if Path(one.filename).parent == folder]
    place = f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else "app.py"
    return place if not frames or frames[-1] in own else f"{place}, by way of {frames[-1].filename}"


def _version(name: str) -> str:
    found = importlib.metadata.packages_distributions().get(name) or []
    return importlib.metadata.version(found[0]) if found else "of no known version"
