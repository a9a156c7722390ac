"""Tasks of Harbor and terminal-bench: the agent works in a sandbox, and tests that it never saw decide in another."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field
from task_sandboxes import SandboxConfig, TaskSandboxes
from tasks import HarborRow, HarborVerify, Task, task_of
from verifying import Verifier

from gym.errors import UserError
from gym.sandbox.broker_client import Sandboxes
from gym.sandbox.work_tools import WorkConfig, WorkPlace, WorkServer, rollout_id
from gym.wire.failures import RolloutError


class HarborConfig(WorkConfig):
    places: SandboxConfig = SandboxConfig()
    time_scale: float = Field(default=1.0, gt=0)  # of the limits that tasks set: more for a slower machine
    max_verifiers: int = Field(default=16, ge=1)
    prepare: Path | None = None  # rows, below this folder: the builds of their images begin when the server starts


@dataclass(kw_only=True)
class State(WorkPlace):
    task: Task


class HarborServer(WorkServer[State]):
    config: HarborConfig
    reverify_mode = "unsupported"  # what is judged lies in a sandbox that is gone by then

    async def start(self) -> None:
        self.sandboxes = self.own(Sandboxes.from_settings(self.settings))
        await self.sandboxes.begin()
        self.task_sandboxes = TaskSandboxes(self.sandboxes, self.config.places)
        self.verifier = Verifier(self.task_sandboxes, self.config.time_scale)
        self.verifiers = asyncio.Semaphore(self.config.max_verifiers)
        if self.config.prepare is not None:
            await self._prepare(self.here / self.config.prepare)

    async def seed(self, row: HarborRow) -> State:
        """A sandbox as the task describes it, with nothing of its tests."""
        task = task_of(row)
        self.task_sandboxes.check_shared(task)
        sandbox, folder = await self.task_sandboxes.open(task, "agent", rollout_id())
        seconds = task.agent_timeout * self.config.time_scale
        return State(sandbox=sandbox, folder=folder, ttl=self.config.places.ttl, task=task, seconds_left=seconds)

    async def close(self, state: State) -> None:
        await state.sandbox.delete()

    def advertise(self, state: Any) -> dict[str, Any]:
        handle = {**state.sandbox.share(), "workdir": state.folder, "seconds": state.seconds_left}
        return {"instance_id": state.task.instance_id, "sandbox_handle": handle}

    async def verify(self, rollout: HarborVerify, state: State | None) -> dict[str, Any]:
        """What the task's own tests say of what the agent left."""
        task_of(rollout)
        if state is None:
            raise RolloutError("row", "a task is judged by what the agent left: POST /seed_session first")
        async with self.verifiers:
            return await self.verifier.verify(state.task, state.sandbox, state.folder, rollout_id())

    async def _prepare(self, rows: Path) -> None:
        try:
            lines = (await asyncio.to_thread(rows.read_bytes)).splitlines()
            tasks = [task_of(HarborRow.model_validate_json(line)) for line in lines if line.strip()]
        except (OSError, ValueError, RolloutError) as error:
            what = f"prepare: {rows}: {error}"
            hint = "a file of rows in the server's folder, which its image has as well: prepare: data/rows.jsonl"
            raise UserError(what, hint) from None
        sources = [source for task in tasks for source in (task.source, task.verifier_source)]
        if await self.task_sandboxes.has_no_images():
            return
        for source in sources:
            if "build" in source:
                await self.sandboxes.begin_build(source["build"])


app = HarborServer.app()
