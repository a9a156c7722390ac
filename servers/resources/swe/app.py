"""Software engineering tasks: a repository in a sandbox for the agent, a fresh one for the tests that decide."""

from __future__ import annotations

import asyncio
import posixpath
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import editing
from answers import patch_in
from grading import Grade, Grader, report_of
from harbor import HarborGrader
from installing import ACTIVATE, find_shell
from places import PlaceConfig, Places
from pydantic import Field
from repository import Repository, is_of_the_sandbox
from tasks import SweRow, SweVerify, Task, task_of

from gym.sandbox.broker_client import Sandbox, SandboxEnded, Sandboxes, Shell
from gym.sandbox.processes import SandboxJob
from gym.server import ResourcesConfig, ResourcesServer, tool
from gym.server.asgi import CURRENT
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecResult, JobInfo


class SweConfig(ResourcesConfig):
    places: PlaceConfig = PlaceConfig()
    eval_timeout: float = Field(default=1800.0, gt=0)  # of the tests; a row's own wins
    step_timeout: float = Field(default=600.0, gt=0)  # of one command of the agent
    max_output: int = Field(default=16_000, ge=200)  # characters of a command or a file that the model is shown
    max_patch: int = Field(default=8 << 20, ge=1)
    look_again: bool = True  # what passes is run once more with its tests made to fail: twice the time of a solved row
    max_gradings: int = Field(default=16, ge=1)
    plain_image: str | None = None  # where the provider has no images: its one, in which repositories are made by hand
    python: str = ""  # the interpreter that runs the tests, where it is none of the usual


MAX_JOBS: Final = 64  # of one session
KILL_SECONDS: Final = 30.0  # in which a job is gone that was ended
GONE: Final = (404, 410)  # the broker's word for a shell that has ended


@dataclass
class State:
    task: Task
    box: Sandbox
    repository: Repository | None = None  # None: a Harbor task, whose whole sandbox is the answer
    shell: Shell | None = None
    jobs: list[SandboxJob] = field(default_factory=list)

    @property
    def folder(self) -> str:
        return self.repository.folder if self.repository else self.task.workdir or ""


class Swe(ResourcesServer[State]):
    config: SweConfig
    reverify_mode = "unsupported"  # what is graded lies in a sandbox that is gone by then

    async def start(self) -> None:
        self.sandboxes = self.own(Sandboxes.from_settings(self.settings))
        await self.sandboxes.begin()
        self.places = Places(self.sandboxes, self.config.places, self.config.plain_image)
        timeout, python = self.config.eval_timeout, self.config.python
        self.grader = Grader(self.places, timeout=timeout, python=python, look_again=self.config.look_again)
        self.harbor = HarborGrader(self.places)
        self.gradings = asyncio.Semaphore(self.config.max_gradings)

    async def seed(self, row: SweRow) -> State | None:
        """The agent's sandbox, with the repository at its base and nothing of what came after it."""
        task = task_of(row)
        if task.single_turn:
            return None
        if task.harbor is not None:
            return State(task, await self.places.open(task, "agent", rollout_id()))
        repository = await self.places.open_repository(task, "agent", rollout_id())
        return State(task, repository.box, repository)

    async def close(self, state: State) -> None:
        await state.box.delete()

    def advertise(self, state: Any) -> dict[str, Any]:
        if not isinstance(state, State):
            return {}
        handle = {**state.box.share(), "workdir": state.folder}
        return {"instance_id": state.task.instance_id, "sandbox_handle": handle}

    # Tools.

    @tool
    async def bash(self, state: State, command: str, timeout: float | None = None) -> str:
        """Run a command in a shell that stays: its directory and variables are kept from one call to the next."""
        seconds = min(timeout or self.config.step_timeout, self.config.step_timeout)
        try:
            notice = "The shell had ended; this is a new one.\n" if await self._has_ended(state) else ""
            if state.shell is None or notice:
                state.shell = await self._open_shell(state)
            result = await state.shell.run(command, timeout=seconds, max_output=self.config.max_output * 4)
        except RolloutError as error:
            return f"Error: {message_to_model(error)}"
        return notice + self._describe_result(result, seconds)

    @tool
    async def run_command(
        self, state: State, command: str, timeout: float | None = None, cwd: str | None = None
    ) -> dict[str, Any]:
        """Run a command in a shell of its own; answers with its output and its return code."""
        seconds = min(timeout or self.config.step_timeout, self.config.step_timeout)
        try:
            shell = await find_shell(state.box)
            script = f"{ACTIVATE}{command}" if shell.endswith("bash") else command
            # One stream, in the order in which things were written.
            argv = ["sh", "-c", 'exec "$0" -c "$1" 2>&1', shell, script]
            where = cwd or state.folder or None
            result = await state.box.exec(argv, cwd=where, timeout=seconds, max_output=self.config.max_output * 16)
        except RolloutError as error:
            return {"output": message_to_model(error), "returncode": -1, "exception_info": ""}
        code = -1 if result.exit_code is None else result.exit_code
        late = f"the command was ended after {seconds:g} s" if result.timed_out else ""
        return {"output": result.stdout.text, "returncode": code, "exception_info": late}

    @tool
    async def start_job(self, state: State, command: str) -> str:
        """Start a command that goes on in the background, such as a server, from the repository's folder."""
        if len(state.jobs) >= MAX_JOBS:
            return f"Error: {MAX_JOBS} jobs were started already, and there are no more."
        try:
            shell = await find_shell(state.box)
            argv = [shell, "-c", f"{ACTIVATE}exec 2>&1\n{command}"]  # one stream, in the order of writing
            max_output = self.config.max_output * 4
            job = await state.box.start_job(
                argv, cwd=state.folder or None, timeout=self.config.places.ttl, max_output=max_output
            )
        except RolloutError as error:
            return f"Error: {message_to_model(error)}"
        state.jobs.append(job)
        return f"Job {len(state.jobs)} runs."

    @tool
    async def read_job(self, state: State, job: int, end: bool = False) -> str:
        """Show what a job wrote so far, and whether it still runs. `end` ends it first, with what it started."""
        if not 1 <= job <= len(state.jobs):
            return f"Error: there is no job {job}; {len(state.jobs)} were started."
        asked = state.jobs[job - 1]
        try:
            if end:
                await asked.kill()
                await asked.wait(KILL_SECONDS)
            info = await asked.inspect()
        except RolloutError as error:
            return f"Error: {message_to_model(error)}"
        text = editing.cut(info.result.stdout.text if info.result else "", self.config.max_output)
        return f"{text}\n[{tell_state(info)}]".lstrip()

    @tool
    async def view(self, state: State, path: str, view_range: list[int] | None = None) -> str:
        """Show a file with line numbers, or a folder two levels deep. view_range is [first, last]; last may be -1."""
        try:
            return await editing.view(state.box, self._path(state, path), view_range, self.config.max_output)
        except editing.EditError as problem:
            return f"Error: {problem}"
        except RolloutError as error:
            return f"Error: {message_to_model(error)}"

    @tool
    async def edit(
        self,
        state: State,
        command: Literal["create", "str_replace", "insert"],
        path: str,
        file_text: str | None = None,
        old_str: str | None = None,
        new_str: str | None = None,
        insert_line: int | None = None,
    ) -> str:
        """Change a file: create (file_text), str_replace (one old_str by new_str), insert (new_str, insert_line)."""
        box, where = state.box, self._path(state, path)
        try:
            if command == "create":
                return await editing.create(box, where, file_text or "")
            if command == "str_replace":
                return await editing.replace(box, where, old_str or "", new_str or "")
            if insert_line is None:
                return "Error: insert needs insert_line."
            return await editing.insert(box, where, insert_line, new_str or "")
        except editing.EditError as problem:
            return f"Error: {problem}"
        except RolloutError as error:
            return f"Error: {message_to_model(error)}"

    # The verdict.

    async def verify(self, rollout: SweVerify, state: State | None) -> dict[str, Any]:
        """1.0 when every listed test is seen to pass with the patch, in a sandbox that the agent never touched."""
        task = task_of(rollout)
        async with self.gradings:
            if task.harbor is not None:
                return await self.harbor.grade(task, task.harbor, state.box if state else None, rollout_id())
            patch, loosely, reason = await self._patch(task, rollout, state)
            if state is not None:
                await state.box.delete()
            grade = (
                Grade(0.0, reason) if reason else await self.grader.grade(task, patch, rollout_id(), loosely=loosely)
            )
        report = report_of(task, grade, patch)
        fields: dict[str, Any] = {
            "reward": grade.reward,
            "resolved": bool(grade.reward),
            "model_patch": patch_text(patch),
            "eval_report": report,
            "restored_files": list(grade.restored),
            "test_seconds": round(grade.seconds, 3),
            "metadata": {"instance_id": task.instance_id, "model_patch": patch_text(patch), "eval_report": report},
        }
        return {**fields, "reason": grade.reason} if grade.reason else fields

    async def _patch(self, task: Task, rollout: SweVerify, state: State | None) -> tuple[str, bool, str]:
        """The patch, whether it may fit loosely, and why there is none."""
        if task.model_patch is not None:
            return task.model_patch, False, ""
        shown_patch = patch_in(rollout.joined_text)
        if state is None or state.repository is None:
            return shown_patch, True, ""
        patch, reason = await state.repository.take_patch(self.config.max_patch)
        if patch is None:
            return "", False, reason
        return (patch, False, "") if patch.strip() else (shown_patch, True, "")

    def _path(self, state: State, path: str) -> str:
        return posixpath.normpath(posixpath.join(state.folder or "/", path))

    async def _has_ended(self, state: State) -> bool:
        """By its own command, or since: whatever else runs in the sandbox may end it."""
        if state.shell is None or state.shell.ended:
            return state.shell is not None
        try:
            await state.shell.run(":")
        except RolloutError as error:
            if error.status not in GONE or (await state.box.inspect()).state != "running":
                raise
            return True
        return state.shell.ended

    async def _open_shell(self, state: State) -> Shell:
        path = await find_shell(state.box)
        shell = await state.box.shell(path=path, cwd=state.folder or None, env={"PAGER": "cat", "TQDM_DISABLE": "1"})
        if path.endswith("bash"):
            await shell.run(ACTIVATE.strip(), timeout=60)
        return shell

    def _describe_result(self, result: ExecResult, seconds: float) -> str:
        text = editing.cut(result.stdout.text + result.stderr.text, self.config.max_output)
        if result.timed_out:
            return f"{text}\n[The command was ended after {seconds:g} s.]".lstrip()
        if result.oom:
            return f"{text}\n[The command was ended: no memory was left.]".lstrip()
        return text if result.exit_code == 0 else f"{text}\n[exit code {result.exit_code}]".lstrip()


def message_to_model(error: RolloutError) -> str:
    """The result of a call in the sandbox as a text for the model. An engine's failure is raised unchanged."""
    if isinstance(error, SandboxEnded) or is_of_the_sandbox(error):
        return error.message
    raise error


def tell_state(info: JobInfo) -> str:
    if info.state != "ended" or info.result is None:
        return "The job runs." if info.state == "running" else "The job is lost."
    if info.result.signal:
        return f"The job was ended by signal {info.result.signal}."
    return f"The job ended with exit code {info.result.exit_code}."


def rollout_id() -> str:
    call = CURRENT.get()
    return call.rollout_id if call else ""


def patch_text(patch: str) -> str:
    return patch.encode("utf-8", "replace").decode()


app = Swe.app()
