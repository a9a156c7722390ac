"""Environments of the fhaviary package: their tools and first messages are known after reset, a reward at each step."""

import asyncio
import json
from dataclasses import dataclass
from itertools import count
from typing import Any

from aviary.core import Environment, Message, TaskDataset, ToolCall, ToolCallFunction, ToolRequestMessage
from bounded_cache import bound_caches
from bounded_tools import bound_tools
from pydantic import Field

from gym.errors import UserError
from gym.server import Row
from gym.server.adapters.cpu_limit import CpuLimitReached
from gym.server.adapters.tool_environment import (
    BadCall,
    OpenedTools,
    ToolEnvironment,
    ToolEnvironmentConfig,
    ToolReply,
)
from gym.wire.failures import RolloutError


class AviaryConfig(ToolEnvironmentConfig):
    dataset: str = "dummy"  # a name of the package's TASK_DATASET_REGISTRY
    dataset_settings: dict[str, Any] = Field(default_factory=dict)
    call_seconds: float = Field(default=60.0, gt=0)
    cpu_seconds: float = Field(default=5.0, gt=0)  # of a tool that is a plain function; of wall time, 12 times as many
    cache_characters: int = Field(default=64 << 20, ge=0)  # of the pages that hotpotqa keeps for all rollouts
    threads: bool = False  # for plain functions that wait for a network: the package's own threads, and no cpu_seconds
    # What a tool raises for arguments that cannot be: the model reads it. Everything else is a failure.
    bad_call_errors: tuple[str, ...] = ("ValueError", "TypeError", "ArithmeticError")


class AviaryRow(Row):
    task_index: int | None = Field(default=None, ge=0)  # in a data set that has indices
    task_arguments: dict[str, Any] | None = None  # for a data set that makes tasks of arguments


@dataclass(slots=True)
class AviaryEpisode:
    environment: Environment[Any]
    ids: "count[int]"


class Aviary(ToolEnvironment[AviaryEpisode]):
    config: AviaryConfig
    reverify_mode = "unsupported"  # an environment may draw at random

    async def start(self) -> None:
        name = self.config.dataset
        try:
            self._tasks = TaskDataset.from_name(name, **self.config.dataset_settings)
        except (ImportError, TypeError, ValueError) as error:
            hint = f"dataset: dummy; others need a package: add `aviary.{name}` to requirements.txt"
            raise UserError(f"{self.name}: dataset {name!r}: {error}", hint) from None
        except (OSError, RuntimeError) as error:
            hint = "bring its data into the server's image or folder: its README says how"
            raise UserError(f"{self.name}: the data of {name!r} cannot be had: {error}", hint) from None

    async def open(self, row: AviaryRow) -> OpenedTools[AviaryEpisode]:
        environment = self._new_environment(row)
        bound_caches(environment, self.config.cache_characters)
        try:
            messages, tools = await environment.reset()
        except BaseException:
            await environment.close()
            raise
        if not self.config.threads:
            bound_tools(tools, self.config.cpu_seconds)
        described = [one.info.model_dump(mode="json", exclude_none=True) for one in tools]
        shown = [{"type": "message", "role": one.role, "content": one.content or ""} for one in messages]
        return OpenedTools(AviaryEpisode(environment, count()), described, shown)

    async def call(self, state: AviaryEpisode, name: str, arguments: dict[str, Any]) -> ToolReply:
        asked = ToolCall(id=f"call_{next(state.ids)}", function=ToolCallFunction(name=name, arguments=arguments))
        scope = asyncio.timeout(self.config.call_seconds)
        try:
            async with scope:
                taken = await state.environment.step(ToolRequestMessage(tool_calls=[asked]))
        except CpuLimitReached as limit:
            return self._too_costly(name, limit)
        except Exception as error:
            if scope.expired():
                raise RolloutError("timeout", f"{name} took longer than {self.config.call_seconds:g} s") from None
            if {one.__name__ for one in type(error).__mro__} & {*self.config.bad_call_errors}:
                raise BadCall(f"{type(error).__name__}: {error}") from None
            raise
        messages, reward, done, truncated = taken
        return ToolReply(_text(messages), reward, bool(done or truncated))

    def _too_costly(self, name: str, limit: CpuLimitReached) -> ToolReply:
        """Arguments can make a tool cost as much as one likes: 9**9**9. They are the policy's."""
        why = f"{name} took too long: {limit}"
        if limit.waited:
            raise RolloutError("timeout", why)
        return ToolReply({"error": f"{why}. The episode is over."}, done=True, reason=why)

    async def discard(self, state: AviaryEpisode) -> None:
        await state.environment.close()

    def _new_environment(self, row: AviaryRow) -> Environment[Any]:
        try:
            if row.task_arguments is not None:
                return self._tasks.get_new_env_by_args(**row.task_arguments)
            if row.task_index is not None:
                return self._tasks.get_new_env_by_idx(row.task_index)
            return self._tasks.get_new_env()
        except (NotImplementedError, IndexError, TypeError) as error:
            what = f"task_index, task_arguments: the data set {self.config.dataset!r} has no such task: {error}"
            raise RolloutError("row", what) from None


def _text(messages: list[Message]) -> str:
    """A tool without a result says null, which tells the model nothing wrong."""
    texts = [one.content if isinstance(one.content, str) else json.dumps(one.content) for one in messages]
    return "\n".join(texts)


app = Aviary.app()
