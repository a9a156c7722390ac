"""Finds the classes that a configuration names, and says which package or folder is missing where one is not there."""

from __future__ import annotations

import importlib
import sys
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from gym.errors import UserError


class RagenEnvironment(BaseModel):
    """One environment of the configuration. RAGEN has the same below `custom_envs`."""

    model_config = ConfigDict(extra="forbid")

    environment: str  # module:Class
    config: dict[str, Any] = Field(default_factory=dict)  # of its configuration's dataclass
    config_class: str = ""  # module:Class; else the one beside the environment: FrozenLakeEnvConfig of FrozenLakeEnv
    attributes: dict[str, Any] = Field(default_factory=dict)  # set on the environment once it is made
    max_actions_per_turn: int = Field(default=5, ge=1)  # of one reply; what comes after them is not looked at
    max_actions: int | None = Field(default=100, ge=1)  # of a game, which is truncated then
    bad_action: list[str] = Field(default_factory=list)  # exceptions of `step` that say: that action cannot be


def search_in(folders: list[str]) -> None:
    for folder in folders:
        path = Path(folder).expanduser().resolve()
        if not path.is_dir():
            raise UserError(f"folders: {folder} is not a folder", "name the checkout whose modules are to be found")
        if str(path) not in sys.path:
            sys.path.append(str(path))


def find_class(tag: str, path: str) -> Any:
    """`module:Class`."""
    where = f"environments.{tag}: {path}"
    module, _, name = path.partition(":")
    if not module or not name:
        raise UserError(f"{where}: no module and class", "environment: my_package.my_module:MyEnvironment")
    try:
        found = importlib.import_module(module)
    except Exception as error:
        hint = "name its package in requirements.txt beside app.py, or its folder under `folders`"
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise UserError(f"{where}: {type(error).__name__}: {error} (Python {version})", hint) from error
    if not isinstance(getattr(found, name, None), type):
        classes = [key for key, one in vars(found).items() if isinstance(one, type) and hasattr(one, "step")]
        raise UserError(f"{where}: {module} has no class {name}", f"it has: {', '.join(classes) or 'none with a step'}")
    return getattr(found, name)


def find_config_class(tag: str, rules: RagenEnvironment, kind: type) -> Any:
    """The dataclass of its settings; None for an environment that takes none."""
    if rules.config_class:
        return find_class(tag, rules.config_class)
    beside = vars(sys.modules[kind.__module__])
    names = (f"{kind.__name__}Config", f"{kind.__name__.removesuffix('Env')}Config")
    found = next((beside[name] for name in names if name in beside), None)
    if rules.config and not is_dataclass(found):
        raise UserError(
            f"environments.{tag}: no {names[0]} beside {rules.environment} takes its config",
            "config_class: module:Class",
        )
    return found if is_dataclass(found) else None
