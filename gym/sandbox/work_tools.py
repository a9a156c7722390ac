"""Tools for work in a sandbox, as models are used to them: a shell that stays, jobs, view and edit.

A server whose sessions have a sandbox derives from `WorkServer` instead of `ResourcesServer`, and has them.
"""

from __future__ import annotations

import math
import posixpath
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, TypeVar

from pydantic import Field

from gym.sandbox import editing
from gym.sandbox.broker_client import Sandbox, SandboxEnded, Shell
from gym.sandbox.processes import SandboxJob
from gym.sandbox.sandbox_errors import is_of_the_sandbox
from gym.server import ResourcesConfig, ResourcesServer, tool
from gym.server.asgi import CURRENT
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecResult, JobInfo

MAX_JOBS: Final = 64  # of one session
KILL_SECONDS: Final = 30.0  # in which a job is gone that was ended
GONE: Final = (404, 410)  # the broker's word for a shell that has ended
JOB_SECONDS: Final = 21600.0  # the most that a job may take


class WorkConfig(ResourcesConfig):
    step_timeout: float = Field(default=600.0, gt=0)  # of one command of the agent
    max_output: int = Field(default=16_000, ge=200)  # characters of a command or a file that the model is shown


@dataclass(kw_only=True)
class WorkPlace:
    """A session's sandbox, and where in it the agent works ("": where the image says)."""

    sandbox: Sandbox
    folder: str = ""
    shell: Shell | None = None
    jobs: list[SandboxJob] = field(default_factory=list)
    ttl: float = 0.0  # what the sandbox was made with: each use makes it last so long again; 0: it ends at its time
    seconds_left: float = math.inf  # for the agent's commands; the time that a model takes is not counted


P = TypeVar("P", bound=WorkPlace)


class WorkServer(ResourcesServer[P]):
    config: WorkConfig
    activate: ClassVar[str] = ""  # lines of bash that stand before every command

    @tool
    async def bash(self, state: P, command: str, timeout: float | None = None) -> str:
        """Run a command in a shell that stays: its directory and variables are kept from one call to the next."""
        if state.seconds_left <= 0:
            return NO_TIME
        seconds = self._seconds(state, timeout)
        try:
            await extend_in_use(state)
            notice = "The shell had ended; this is a new one.\n" if await self._has_ended(state) else ""
            if state.shell is None or notice:
                state.shell = await self._open_shell(state)
            result = await state.shell.run(command, timeout=seconds, max_output=self.config.max_output * 4)
        except RolloutError as error:
            return f"Error: {message_to_model(error)}"
        state.seconds_left -= result.seconds
        return notice + describe_result(result, seconds, self.config.max_output)

    @tool
    async def run_command(
        self, state: P, command: str, timeout: float | None = None, cwd: str | None = None
    ) -> dict[str, Any]:
        """Run a command in a shell of its own; answers with its output and its return code."""
        if state.seconds_left <= 0:
            return {"output": NO_TIME, "returncode": -1, "exception_info": ""}
        seconds = self._seconds(state, timeout)
        try:
            await extend_in_use(state)
            shell = await find_shell(state.sandbox)
            script = f"{self.activate}{command}" if shell.endswith("bash") else command
            # One stream, in the order in which things were written.
            argv = ["sh", "-c", 'exec "$0" -c "$1" 2>&1', shell, script]
            where = cwd or state.folder or None
            result = await state.sandbox.exec(argv, cwd=where, timeout=seconds, max_output=self.config.max_output * 16)
        except RolloutError as error:
            return {"output": message_to_model(error), "returncode": -1, "exception_info": ""}
        state.seconds_left -= result.seconds
        code = -1 if result.exit_code is None else result.exit_code
        late = f"the command was ended after {seconds:g} s" if result.timed_out else ""
        return {"output": result.stdout.text, "returncode": code, "exception_info": late}

    @tool
    async def start_job(self, state: P, command: str) -> str:
        """Start a command that goes on in the background, such as a server, from the repository's folder."""
        if len(state.jobs) >= MAX_JOBS:
            return f"Error: {MAX_JOBS} jobs were started already, and there are no more."
        if state.seconds_left <= 0:
            return NO_TIME
        try:
            await extend_in_use(state)
            shell = await find_shell(state.sandbox)
            argv = [shell, "-c", f"{self.activate}exec 2>&1\n{command}"]  # one stream, in the order of writing
            job = await state.sandbox.start_job(
                argv,
                cwd=state.folder or None,
                timeout=min(JOB_SECONDS, state.seconds_left),
                max_output=self.config.max_output * 4,
            )
        except RolloutError as error:
            return f"Error: {message_to_model(error)}"
        state.jobs.append(job)
        return f"Job {len(state.jobs)} runs."

    @tool
    async def read_job(self, state: P, job: int, end: bool = False) -> str:
        """Show what a job wrote so far, and whether it still runs. `end` ends it first, with what it started."""
        if not 1 <= job <= len(state.jobs):
            return f"Error: there is no job {job}; {len(state.jobs)} were started."
        asked = state.jobs[job - 1]
        try:
            await extend_in_use(state)
            if end:
                await asked.kill()
                await asked.wait(KILL_SECONDS)
            info = await asked.inspect()
        except RolloutError as error:
            return f"Error: {message_to_model(error)}"
        text = editing.cut(info.result.stdout.text if info.result else "", self.config.max_output)
        return f"{text}\n[{tell_state(info)}]".lstrip()

    @tool
    async def view(self, state: P, path: str, view_range: list[int] | None = None) -> str:
        """Show a file with line numbers, or a folder two levels deep. view_range is [first, last]; last may be -1."""
        try:
            await extend_in_use(state)
            return await editing.view(state.sandbox, path_in(state, path), view_range, self.config.max_output)
        except editing.EditError as problem:
            return f"Error: {problem}"
        except RolloutError as error:
            return f"Error: {message_to_model(error)}"

    @tool
    async def edit(
        self,
        state: P,
        command: Literal["create", "str_replace", "insert"],
        path: str,
        file_text: str | None = None,
        old_str: str | None = None,
        new_str: str | None = None,
        insert_line: int | None = None,
    ) -> str:
        """Change a file: create (file_text), str_replace (one old_str by new_str), insert (new_str, insert_line)."""
        sandbox, where = state.sandbox, path_in(state, path)
        try:
            await extend_in_use(state)
            if command == "create":
                return await editing.create(sandbox, where, file_text or "")
            if command == "str_replace":
                return await editing.replace(sandbox, where, old_str or "", new_str or "")
            if insert_line is None:
                return "Error: insert needs insert_line."
            return await editing.insert(sandbox, where, insert_line, new_str or "")
        except editing.EditError as problem:
            return f"Error: {problem}"
        except RolloutError as error:
            return f"Error: {message_to_model(error)}"

    def _seconds(self, state: P, asked: float | None) -> float:
        return min(asked or self.config.step_timeout, self.config.step_timeout, max(state.seconds_left, 0.1))

    async def _has_ended(self, state: P) -> bool:
        """By its own command, or since: whatever else runs in the sandbox may end it."""
        if state.shell is None or state.shell.ended:
            return state.shell is not None
        try:
            await state.shell.run(":")
        except RolloutError as error:
            if error.status not in GONE or (await state.sandbox.inspect()).state != "running":
                raise
            return True
        return state.shell.ended

    async def _open_shell(self, state: P) -> Shell:
        path = await find_shell(state.sandbox)
        quiet = {"PAGER": "cat", "TQDM_DISABLE": "1"}
        shell = await state.sandbox.shell(path=path, cwd=state.folder or None, env=quiet)
        if self.activate and path.endswith("bash"):
            await shell.run(self.activate.strip(), timeout=60)
        return shell


NO_TIME: Final = "Error: the time that this task gives is used up. It is judged as it is now."


async def extend_in_use(place: WorkPlace) -> None:
    """A session lasts while it is used; so does its sandbox."""
    if place.ttl:
        await place.sandbox.extend_if_due(place.ttl)


async def find_shell(sandbox: Sandbox) -> str:
    found = await sandbox.exec("command -v bash || command -v sh")
    return found.stdout.text.strip() or "/bin/sh"


def path_in(place: WorkPlace, path: str) -> str:
    return posixpath.normpath(posixpath.join(place.folder or "/", path))


def describe_result(result: ExecResult, seconds: float, max_output: int) -> str:
    text = editing.cut(result.stdout.text + result.stderr.text, max_output)
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
