"""Makes an environment of Atropos as its own command does, without a trainer, without wandb, in groups of one."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from lent_policy import LentServer
from pydantic import ValidationError
from scoring import watch_groups_of
from stand_in_tokenizer import stand_in_tokenizer

from gym.errors import UserError

# One rollout is one trajectory, and nothing is sent anywhere but to the policy.
FIXED = {"group_size": 1, "use_wandb": False, "ensure_scores_are_not_same": False, "data_path_to_save_groups": None}
DUMMY = "ATROPOS_ALLOW_DUMMY_MANAGED_SERVER"  # token ids come from the rollout's session: the library needs none


async def load_environment(path: str, given: dict[str, Any], folders: list[str]) -> Any:
    kind = find_environment(path, folders)
    os.environ[DUMMY] = "1"
    warnings.filterwarnings("ignore", message="Using DummyManagedServer")  # it is what is wanted here
    settings, _ = kind.config_init()
    named = {"tokenizer_name": stand_in_tokenizer()} if "tokenizer_name" not in given else {}
    try:
        config = type(settings).model_validate({**settings.model_dump(), **named, **given, **FIXED})
    except ValidationError as error:
        raise UserError(f"config: {path}: {error}", "its config_init says which settings it has") from None
    server = LentServer()
    environment = kind(config, [server.config], slurm=False, testing=False)
    environment.server.servers = [server]
    await environment.setup()
    return environment


def find_environment(path: str, folders: list[str]) -> Any:
    for folder in folders:
        place = str(Path(folder).expanduser().resolve())
        if not Path(place).is_dir():
            raise UserError(f"folders: {folder} is not a folder", "name the checkout whose modules are to be found")
        if place not in sys.path:
            sys.path.append(place)
    module, _, name = path.partition(":")
    try:
        found = importlib.import_module(module)
    except Exception as error:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        hint = "name its package in requirements.txt beside app.py, or its folder under `folders`"
        raise UserError(f"environment: {path}: {type(error).__name__}: {error} (Python {version})", hint) from error
    kind = getattr(found, name, None)
    if not isinstance(kind, type) or not hasattr(kind, "config_init"):
        known = [key for key, one in vars(found).items() if isinstance(one, type) and hasattr(one, "get_next_item")]
        raise UserError(f"environment: {path}: no BaseEnv", f"{module} has {', '.join(known) or 'none'}")
    watch_groups_of(found)
    return kind
