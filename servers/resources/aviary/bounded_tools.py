"""Runs tools that are plain functions in the event loop, under a limit of CPU time.

The package runs them in threads, where nothing ends one: 9**9**9 in a calculator holds the interpreter's lock for
hours, and with it every other rollout.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any

from aviary.core import Tool
from aviary.utils import is_coroutine_callable

from gym.server.adapters.cpu_limit import CpuLimit


def bound_tools(tools: Iterable[Tool], seconds: float) -> None:
    for tool in tools:
        if not is_coroutine_callable(tool._tool_fn):
            tool._tool_fn = bounded(tool._tool_fn, seconds)


def bounded(function: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        with CpuLimit(seconds, wall=seconds * 12):
            return function(*args, **kwargs)

    return call
