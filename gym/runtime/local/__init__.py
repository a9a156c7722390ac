"""The local runtime: servers as processes of this machine, each in an environment of its own where it needs one."""

from typing import TYPE_CHECKING

from gym.lazy import on_first_use

if TYPE_CHECKING:
    from gym.runtime.local.local_runtime import LocalRuntime

__all__ = ["LocalRuntime"]

__getattr__ = on_first_use(__name__)
