"""The Compose runtime: every instance its own image, started, watched and ended by a Docker engine."""

from typing import TYPE_CHECKING

from gym.lazy import on_first_use

if TYPE_CHECKING:
    from gym.engine import EngineFacts, engine_answers, find_engine, require_engine
    from gym.runtime.compose.archive import load_stack_file, save_stack
    from gym.runtime.compose.compose_runtime import ComposeRuntime

__all__ = [
    "ComposeRuntime",
    "EngineFacts",
    "engine_answers",
    "find_engine",
    "load_stack_file",
    "require_engine",
    "save_stack",
]

__getattr__ = on_first_use(__name__)
