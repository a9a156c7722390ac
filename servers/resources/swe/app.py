"""Software engineering tasks: a repository in a sandbox for the agent, a fresh one for the tests that decide."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from answers import patch_in
from grading import Grade, Grader, report_of
from installing import ACTIVATE
from pydantic import Field
from repository import Repository
from task_sandboxes import SandboxConfig, TaskSandboxes
from tasks import SweRow, SweVerify, Task, task_of

from gym.sandbox.broker_client import Sandboxes
from gym.sandbox.work_tools import WorkConfig, WorkPlace, WorkServer, rollout_id
from gym.server import Score


class SweConfig(WorkConfig):
    places: SandboxConfig = SandboxConfig()
    eval_timeout: float = Field(default=1800.0, gt=0)  # of the tests; a row's own wins
    max_patch: int = Field(default=8 << 20, ge=1)
    look_again: bool = True  # what passes is run once more with its tests made to fail: twice the time of a solved row
    max_gradings: int = Field(default=16, ge=1)
    plain_image: str | None = None  # where the provider has no images: its one, in which repositories are made by hand
    python: str = ""  # the interpreter that runs the tests, where it is none of the usual


@dataclass(kw_only=True)
class State(WorkPlace):
    task: Task
    repository: Repository


class SweScore(Score):
    resolved: bool
    model_patch: str
    eval_report: dict[str, Any]
    restored_files: list[str]
    test_seconds: float
    metadata: dict[str, Any]


class Swe(WorkServer[State]):
    config: SweConfig
    activate = ACTIVATE
    reverify_mode = "unsupported"  # what is graded lies in a sandbox that is gone by then

    async def start(self) -> None:
        self.sandboxes = self.own(Sandboxes.from_settings(self.settings))
        await self.sandboxes.begin()
        self.task_sandboxes = TaskSandboxes(self.sandboxes, self.config.places, self.config.plain_image)
        timeout, python = self.config.eval_timeout, self.config.python
        self.grader = Grader(self.task_sandboxes, timeout=timeout, python=python, look_again=self.config.look_again)
        self.gradings = asyncio.Semaphore(self.config.max_gradings)

    async def seed(self, row: SweRow) -> State | None:
        """The agent's sandbox, with the repository at its base and nothing of what came after it."""
        task = task_of(row)
        if task.single_turn:
            return None
        repository = await self.task_sandboxes.open_repository(task, "agent", rollout_id())
        ttl = self.config.places.ttl
        return State(sandbox=repository.sandbox, folder=repository.folder, ttl=ttl, task=task, repository=repository)

    async def close(self, state: State) -> None:
        await state.sandbox.delete()

    def advertise(self, state: Any) -> dict[str, Any]:
        if not isinstance(state, State):
            return {}
        handle = {**state.sandbox.share(), "workdir": state.folder}
        return {"instance_id": state.task.instance_id, "sandbox_handle": handle}

    # The verdict.

    async def verify(self, rollout: SweVerify, state: State | None) -> SweScore:
        """1.0 when every listed test is seen to pass with the patch, in a sandbox that the agent never touched."""
        task = task_of(rollout)
        async with self.gradings:
            patch, loosely, reason = await self._patch(task, rollout, state)
            if state is not None:
                await state.sandbox.delete()
            grade = (
                Grade(0.0, reason) if reason else await self.grader.grade(task, patch, rollout_id(), loosely=loosely)
            )
        report, shown = report_of(task, grade, patch), patch_text(patch)
        return SweScore(
            reward=grade.reward,
            reason=grade.reason,
            resolved=bool(grade.reward),
            model_patch=shown,
            eval_report=report,
            restored_files=list(grade.restored),
            test_seconds=round(grade.seconds, 3),
            metadata={"instance_id": task.instance_id, "model_patch": shown, "eval_report": report},
        )

    async def _patch(self, task: Task, rollout: SweVerify, state: State | None) -> tuple[str, bool, str]:
        """The patch, whether it may fit loosely, and why there is none."""
        if task.model_patch is not None:
            return task.model_patch, False, ""
        shown_patch = patch_in(rollout.joined_text)
        if state is None:
            return shown_patch, True, ""
        patch, reason = await state.repository.take_patch(self.config.max_patch)
        if patch is None:
            return "", False, reason
        return (patch, False, "") if patch.strip() else (shown_patch, True, "")


def patch_text(patch: str) -> str:
    return patch.encode("utf-8", "replace").decode()


app = Swe.app()
