"""What the sandboxes of every provider share: what they were asked to be, and their channel."""

from __future__ import annotations

import asyncio

from gym.broker.channel.channel import PipeChannel
from gym.broker.provider import Tags
from gym.wire.sandbox import SandboxSpec


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


def _failed(task: asyncio.Task[None]) -> bool:
    return task.cancelled() or task.exception() is not None
