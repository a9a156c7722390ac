"""What the sandboxes of every provider share: what they were asked to be, and their channel."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, TypeVar

from gym.broker.channel.channel import PipeChannel
from gym.broker.provider import Tags
from gym.errors import GymError
from gym.wire.sandbox import SandboxSpec

S = TypeVar("S", bound="RemoteSandbox")


class OpenSandbox:
    def __init__(self, spec: SandboxSpec, tags: Tags, channel: PipeChannel) -> None:
        self._spec = spec
        self._tags = tags
        self._channel = channel
        self.own_doing = False  # what ran in it caused its end

    @property
    def tags(self) -> Tags:
        return self._tags

    @property
    def spec(self) -> SandboxSpec:
        return self._spec

    @property
    def channel(self) -> PipeChannel:
        return self._channel


class RemoteSandbox(OpenSandbox):
    """One that an engine removes: however many ask for it or give up waiting, it is asked once at a time,
    and again where that failed."""

    def __init__(self, spec: SandboxSpec, tags: Tags, channel: PipeChannel) -> None:
        super().__init__(spec, tags, channel)
        self._removal: asyncio.Task[None] | None = None

    async def remove(self) -> None:
        if self._removal is None or (self._removal.done() and _failed(self._removal)):
            self._removal = asyncio.create_task(self._remove(), name=f"remove-{self._tags.id}")
        await asyncio.shield(self._removal)

    async def _remove(self) -> None:
        raise NotImplementedError


class Creations:
    """Creations that an engine finishes although their caller was cancelled: what they made is removed behind it."""

    def __init__(self) -> None:
        self.undoing: set[asyncio.Task[None]] = set()

    async def make(self, work: Coroutine[Any, Any, S], name: str) -> S:
        """A caller that is cancelled waits for the engine's answer all the same: else it could not be undone."""
        task = asyncio.create_task(work, name=name)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            with contextlib.suppress(asyncio.CancelledError):  # cancelled again: it goes on by itself
                await asyncio.shield(self.spawn(_undo(task)))
            raise

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self.undoing.add(task)
        task.add_done_callback(self.undoing.discard)
        return task


async def _undo(task: asyncio.Task[S]) -> None:
    with contextlib.suppress(GymError):
        await (await task).remove()


def _failed(task: asyncio.Task[None]) -> bool:
    return task.cancelled() or task.exception() is not None
