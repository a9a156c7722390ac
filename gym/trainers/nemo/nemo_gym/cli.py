"""`RunHelper`, which starts NeMo Gym's servers there and finds a running stack here."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nemo_gym.nemo_failures import StackError
from nemo_gym.nemo_settings import read_settings
from nemo_gym.nemo_stack import RunningStack, forget, remember

logger = logging.getLogger(__name__)


@dataclass
class GlobalConfigDictParserConfig:
    """Of all this only the dictionary counts: a stack has its own configuration, command line and env.yaml."""

    dotenv_path: Path | None = None
    initial_global_config_dict: Mapping[str, Any] | None = None
    skip_load_from_cli: bool = False
    skip_load_from_dotenv: bool = False
    hide_secrets: bool = False
    offline: bool = False


class RunHelper:
    def __init__(self) -> None:
        self._stack: RunningStack | None = None

    def start(self, global_config_dict_parser_config: GlobalConfigDictParserConfig) -> None:
        """The stack answers and its model asks the trainer's servers when this returns."""
        config = global_config_dict_parser_config.initial_global_config_dict or {}
        found = RunningStack(read_settings(config, os.environ))
        found.check()
        self._stack = found
        if found.settings.options.policy != "keep":
            found.check_policy()
        if found.settings.options.policy == "push":
            found.push_policy()
        if paths := config.get("config_paths"):
            logger.warning("config_paths are not read: %s runs what `gym up` was given (%s)", found.settings.url, paths)
        remember(config, found)

    def poll(self) -> None:
        """Raises when there is no stack, a server of it is down, or its model asks another trainer's servers."""
        if self._stack is None:
            raise RuntimeError("this RunHelper is not started: call start(...) first")
        self._stack.poll()

    def shutdown(self) -> None:
        """Takes the trainer's addresses back; the stack runs on. A problem is logged, as this is often a `finally`."""
        if self._stack is None:
            return
        found, self._stack = self._stack, None
        forget(found)
        try:
            found.take_policy_back()
        except StackError as error:
            logger.warning("the addresses of this trainer's policy may still be at the stack: %s", error)
