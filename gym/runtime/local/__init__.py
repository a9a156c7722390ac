"""The local runtime: servers as processes of this machine, each in an environment of its own where it needs one."""

from gym.runtime.local.local_runtime import LocalRuntime

__all__ = ["LocalRuntime"]
