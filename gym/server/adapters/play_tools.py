"""What a play may do: the tools of its rollout as plain functions, within the budgets that its agent's config sets."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Protocol

from gym.server.budget import BudgetLimits
from gym.wire.json_text import write_json

ANY_ARGUMENTS: Final = {"type": "object", "properties": {}}


class PlayLimits:
    """What a play has used of its budgets. `ended` is set once it has to end, and `spent` names the budget, if one."""

    def __init__(self, limits: BudgetLimits) -> None:
        self._limits = limits
        self.steps = self.calls = self.tokens = 0
        self.spent = ""
        self.failure: Exception | None = None  # what only the infrastructure can have caused
        self.ended = asyncio.Event()

    def take_step(self) -> bool:
        """Whether the model may be asked once more."""
        limits = self._limits
        if limits.max_total_tokens is not None and self.tokens >= limits.max_total_tokens:
            self.end("max_total_tokens")
        elif limits.max_steps is not None and self.steps >= limits.max_steps:
            self.end("max_steps")
        self.steps += not self.ended.is_set()
        return not self.ended.is_set()

    def take_call(self) -> bool:
        if self._limits.max_tool_calls is not None and self.calls >= self._limits.max_tool_calls:
            self.end("max_tool_calls")
        self.calls += not self.ended.is_set()
        return not self.ended.is_set()

    def end(self, spent: str = "") -> None:
        if not self.ended.is_set():
            self.spent = spent
            self.ended.set()

    def fail(self, error: Exception) -> None:
        if not self.ended.is_set():
            self.failure = error
            self.ended.set()


class PlayEnded(Exception):
    """Raised into what a library still does after its play has ended: nothing is called for it any more."""


class CallOne(Protocol):
    def __call__(self, name: str, arguments: str) -> Awaitable[str]: ...


class PlayTool:
    """A tool of the environment: `await tool(city="Paris")` is its text. From a thread: `tool.wait(city="Paris")`."""

    def __init__(self, described: Mapping[str, Any], call: CallOne) -> None:
        self.name = str(described["name"])
        self.description = str(described.get("description") or "")
        self.parameters: dict[str, Any] = dict(described.get("parameters") or ANY_ARGUMENTS)
        self.__name__, self.__doc__ = self.name, self.description
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()

    async def __call__(self, **arguments: Any) -> str:
        return await self.call(arguments)

    async def call(self, arguments: Mapping[str, Any] | str) -> str:
        """The same with the arguments as one object, or as the model wrote them."""
        if asyncio.get_running_loop() is self._loop:
            return await self._begin(arguments)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._begin(arguments), self._loop))

    def wait(self, **arguments: Any) -> str:
        """For libraries that are not asynchronous, out of the thread that they run in."""
        return asyncio.run_coroutine_threadsafe(self._begin(arguments), self._loop).result()

    async def _begin(self, arguments: Mapping[str, Any] | str) -> str:
        text = arguments if isinstance(arguments, str) else write_json(dict(arguments)).decode()
        calling: Callable[[], Any] = lambda: self._call(self.name, text)  # noqa: E731
        task = asyncio.ensure_future(self._context.copy().run(calling))
        return str(await task)


def play_tools(params: Mapping[str, Any], call: CallOne) -> list[PlayTool]:
    """Of a row's parameters: its functions. A tool of another type is the model server's own business."""
    offered = params.get("tools") or ()
    return [PlayTool(one, call) for one in offered if one.get("type", "function") == "function" and one.get("name")]
