"""The verdict of a task's own tests, run in a sandbox of their own and never beside what the agent left running.

What the agent left may stand in the tests' way. Then the same tests run where no agent was, and tell who is to
blame: the agent scores 0, with the reason; a place that is broken without it too is a failure.
"""

from __future__ import annotations

import errno
import posixpath
from typing import Any, Final, NamedTuple

from rewards import NoVerdict, parse_reward, read_summary
from task_sandboxes import TaskSandboxes
from tasks import Artifact, Task, Verification

from gym.sandbox.broker_client import FileProblem, Sandbox, SandboxEnded
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecResult

LOGS: Final = "/logs/verifier"
TESTS: Final = "/tests"
MAX_ARTIFACT: Final = 256 << 20
MAX_REWARD: Final = 64 << 10
MAX_LOG: Final = 8 << 20  # bytes of what the tests print
SHOWN: Final = 4000  # characters of it, in the reply
REFUSED: Final = 422  # the broker's word for what makes no sense
SHARE_OF_TIME: Final = 0.5  # of the verifier's: what it may need where no agent was, for a timeout to be the agent's
# What an engine or a full disk of the machine can cause as well as the policy in the sandbox.
ANYBODYS: Final = frozenset((errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE))


class Spoilt(Exception):
    """The verifier could not do its work, for a reason that the agent may have made."""


class Ran(NamedTuple):
    reward: float
    rewards: dict[str, Any]
    result: ExecResult


class Verifier:
    """Remembers of each task how long its tests take where no agent was."""

    def __init__(self, sandboxes: TaskSandboxes, time_scale: float) -> None:
        self._sandboxes = sandboxes
        self._scale = time_scale
        self._seconds: dict[str, float] = {}

    async def verify(self, task: Task, agent: Sandbox, folder: str, rollout: str) -> dict[str, Any]:
        try:
            sandbox, folder = await self._open(task, agent, folder, rollout)
        except SandboxEnded as ended:
            return nothing(ended.message)
        try:
            left_out = await hand_over_all(task.harbor, agent, sandbox)
            await agent.delete()
            ran = await self._run(task, sandbox, folder)
        except (Spoilt, SandboxEnded) as spoilt:
            return await self._blame(task, str(spoilt), rollout)
        finally:
            await sandbox.delete()
        fields = {"verifier_exit_code": ran.result.exit_code, "verifier_log": log_of(ran.result)[-SHOWN:]}
        fields |= {"verifier_seconds": round(ran.result.seconds, 3), "verifier_sandbox": sandbox.id}
        reason = "" if ran.reward >= 1 else "; ".join(("the task's tests did not all pass", *left_out))
        return {"reward": ran.reward, "rewards": ran.rewards, **fields, **({"reason": reason} if reason else {})}

    async def _open(self, task: Task, agent: Sandbox, folder: str, rollout: str) -> tuple[Sandbox, str]:
        """Its own image, or the agent's files: never the agent's processes, which could go on to write rewards."""
        if task.harbor.separate:
            return await self._sandboxes.open(task, "verifier", rollout)
        return await agent.fork(rollout=rollout), folder

    async def _run(self, task: Task, sandbox: Sandbox, folder: str) -> Ran:
        return await run(task.harbor, sandbox, folder, task.harbor.timeout * self._scale)

    async def _blame(self, task: Task, what: str, rollout: str) -> dict[str, Any]:
        limit = task.harbor.timeout * self._scale
        key = f"{task.instance_id} {hash(task.harbor.model_dump_json())}"
        if key not in self._seconds:
            sandbox, folder = await self._sandboxes.open(task, "verifier", rollout)
            try:
                self._seconds[key] = (await self._run(task, sandbox, folder)).result.seconds
            except Spoilt as too:
                why = f"{too}, where no agent was too"
                raise RolloutError("resources", f"the verifier: {why}", retryable=False) from None
            finally:
                await sandbox.delete()
        if self._seconds[key] > limit * SHARE_OF_TIME:
            took = f"it takes {self._seconds[key]:.0f} s where no agent was"
            raise RolloutError("timeout", f"the verifier: {what}, and {took}: raise its timeout_sec") from None
        return nothing(f"{what}; where no agent was the verifier does its work in {self._seconds[key]:.1f} s")


def nothing(reason: str) -> dict[str, Any]:
    return {"reward": 0.0, "rewards": {}, "reason": reason}


async def hand_over_all(asked: Verification, agent: Sandbox, verifier: Sandbox) -> list[str]:
    """Why artifacts were left out."""
    if not asked.separate:
        return []
    return [why for artifact in asked.artifacts if (why := await hand_over(artifact, agent, verifier))]


async def hand_over(artifact: Artifact, agent: Sandbox, verifier: Sandbox) -> str:
    """A file or a folder, as far as it is there; the verifier judges what is missing. Why it was left out."""
    source = artifact.source
    try:
        kind, mode, data = await take(agent, source)
    except FileProblem as problem:
        return "" if problem.errno == errno.ENOENT else problem.message
    try:
        await verifier.make_dir(source if kind == "dir" else posixpath.dirname(source) or "/")
        if kind == "dir":
            await verifier.put_tree(source, data)
        elif kind == "file":
            await verifier.put(source, data, mode=mode)
    except FileProblem as problem:
        if problem.errno in ANYBODYS:
            raise
        return problem.message
    except RolloutError as error:
        if error.status != REFUSED:
            raise
        return error.message  # what the agent packed has links that lead out of it
    return "" if kind in ("dir", "file") else f"{source} is neither a file nor a folder"


async def take(agent: Sandbox, path: str) -> tuple[str, int, bytes]:
    """Its kind, its mode and its bytes. What goes on in the agent's sandbox may spoil it, twice as well."""
    for last in (False, True):
        info = await agent.stat(path)
        try:
            if info.kind == "dir":
                return info.kind, info.mode & 0o777, await agent.get_tar(path, max_bytes=MAX_ARTIFACT)
            data = await agent.get(path, max_bytes=MAX_ARTIFACT) if info.kind == "file" else b""
            return info.kind, info.mode & 0o777, data
        except FileProblem:
            raise
        except RolloutError as error:
            if last and (await agent.inspect()).state == "running":
                raise FileProblem(f"{path} cannot be read: {error.message}", errno.EIO, path, REFUSED) from None
            if last:
                raise
    raise AssertionError("two tries, and neither ended")


async def run(asked: Verification, sandbox: Sandbox, folder: str, timeout: float) -> Ran:
    """`Spoilt` where no verdict came of it."""
    try:
        await put_tests(asked, sandbox)
    except FileProblem as problem:
        raise Spoilt(f"no place could be made for the verifier: {problem.message}") from None
    result = await execute(asked, sandbox, folder, timeout)
    if result.timed_out:
        raise Spoilt(f"the verifier did not end in {timeout:g} s")
    try:
        if asked.reward == "pytest":
            return Ran(*read_summary(log_of(result), result.exit_code), result)
        return Ran(*parse_reward(await take_reward(sandbox)), result)
    except NoVerdict as none:
        raise Spoilt(f"{none} (it ended with {result.exit_code}: {log_of(result).strip()[-300:]})") from None


async def put_tests(asked: Verification, sandbox: Sandbox) -> None:
    """By our own helper: the agent may have put another `rm` into this file system."""
    await make_empty(sandbox, LOGS)
    if asked.has_own_image:
        return  # it has its tests
    await make_empty(sandbox, TESTS)
    for path, data in asked.tests.files.items():
        target = posixpath.join(TESTS, path)
        await sandbox.make_dir(posixpath.dirname(target))
        await sandbox.put(target, data, mode=0o755 if path.endswith(".sh") or data.startswith(b"#!") else 0o644)


async def execute(asked: Verification, sandbox: Sandbox, folder: str, timeout: float) -> ExecResult:
    # One stream, in the order in which things were written.
    argv = ["/bin/sh", "-c", 'exec "$@" 2>&1', "sh", *asked.command]
    options = {"cwd": folder or None, "env": asked.env, "timeout": timeout}
    try:
        return await sandbox.exec(argv, **options, max_output=MAX_LOG, kill_leftovers=True)
    except RolloutError as error:
        if error.retryable:  # an engine's, or a loss
            raise
        raise Spoilt(f"the verifier could not be started: {error.message}") from None


def log_of(result: ExecResult) -> str:
    return result.stdout.text + result.stderr.text


async def make_empty(sandbox: Sandbox, path: str) -> None:
    """A folder of the verifier's own, with nothing in it, and the way to it no link: shown, before anything runs."""
    parts = [part for part in path.split("/") if part]
    for count in range(1, len(parts)):
        await make_real(sandbox, "/" + "/".join(parts[:count]))
    try:
        await sandbox.remove(path, recursive=True)
    except FileProblem as problem:
        if problem.errno not in (errno.ENOENT, errno.EBUSY, errno.EROFS):  # a mount stays, and is emptied
            raise
    await sandbox.make_dir(path, mode=0o755)
    info = await sandbox.stat(path)
    if info.kind != "dir" or await sandbox.list(path):
        raise Spoilt(f"{path} could not be emptied")


async def make_real(sandbox: Sandbox, path: str) -> None:
    """A folder that its owner may write in, whatever stands there."""
    try:
        info = await sandbox.stat(path)
    except FileProblem as problem:
        if problem.errno != errno.ENOENT:
            raise
    else:
        if info.kind == "dir" and info.mode & 0o700 == 0o700:
            return
        if info.kind == "dir":
            await sandbox.make_dir(path, mode=(info.mode & 0o7777) | 0o700)
            return
        await sandbox.remove(path)
    await sandbox.make_dir(path, mode=0o755)


async def take_reward(sandbox: Sandbox) -> bytes:
    """reward.json, else reward.txt."""
    for name in ("reward.json", "reward.txt"):
        try:
            return await sandbox.get(f"{LOGS}/{name}", length=MAX_REWARD)
        except FileProblem as problem:
            if problem.errno != errno.ENOENT:
                raise NoVerdict(f"the verifier's reward cannot be read: {problem.message}") from None
    raise NoVerdict("the verifier wrote no reward")
