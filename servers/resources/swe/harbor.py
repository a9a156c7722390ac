"""Harbor and terminal-bench tasks: the verifier runs in a sandbox of its own, and the reward is what it wrote there.

What the agent left may stand in the verifier's way. Then the same verifier runs where no agent was, and tells who is to
blame: the agent scores 0, with the reason; a place that is broken without it too is a failure.
"""

from __future__ import annotations

import errno
import math
import posixpath
from typing import Any, Final, NamedTuple

import orjson
from places import Places
from tasks import Artifact, Harbor, Task

from gym.sandbox.broker_client import FileProblem, Sandbox, SandboxEnded
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecResult

LOGS: Final = "/logs/verifier"
TESTS: Final = "/tests"
MAX_ARTIFACT: Final = 256 << 20
MAX_REWARD: Final = 64 << 10
REFUSED: Final = 422  # the broker's word for what makes no sense
SHARE_OF_TIME: Final = 0.5  # of the verifier's: what it may need where no agent was, for a timeout to be the agent's
# What an engine or a full disk of the machine can cause as well as the policy in the sandbox.
ANYBODYS: Final = frozenset((errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE))


class Spoilt(Exception):
    """The verifier could not do its work, for a reason that the agent may have made."""


class Ran(NamedTuple):
    reward: float
    rewards: dict[str, Any]
    reason: str
    result: ExecResult


class HarborGrader:
    """Remembers of each task how long its verifier takes where no agent was."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._seconds: dict[str, float] = {}

    async def grade(self, task: Task, asked: Harbor, agent: Sandbox | None, rollout: str) -> dict[str, Any]:
        if agent is None:
            raise RolloutError("row", "a Harbor task is graded by what the agent left: seed a session first")
        self._places.check_isolated()
        try:
            verifier = await self._verifier(task, asked, agent, rollout)
        except SandboxEnded as ended:
            return nothing(ended.message)
        try:
            left_out = await self._hand_over_all(asked, agent, verifier)
            await agent.delete()
            ran = await run(asked, verifier)
        except (Spoilt, SandboxEnded) as spoilt:
            return await self._blame(task, asked, str(spoilt), rollout)
        finally:
            await verifier.delete()
        log = (ran.result.stdout.text + ran.result.stderr.text)[-4000:]
        fields = {"verifier_exit_code": ran.result.exit_code, "verifier_log": log, "verifier_sandbox": verifier.id}
        reason = "; ".join(one for one in (ran.reason, *left_out) if one and ran.reason)
        return {"reward": ran.reward, "rewards": ran.rewards, **fields, **({"reason": reason} if reason else {})}

    async def _verifier(self, task: Task, asked: Harbor, agent: Sandbox, rollout: str) -> Sandbox:
        """Its own image, or the agent's files: never the agent's processes, which could go on to write rewards."""
        if asked.separate:
            return await self._fresh(task, asked, rollout)
        return await agent.fork(rollout=rollout)

    async def _fresh(self, task: Task, asked: Harbor, rollout: str) -> Sandbox:
        source = {"build": asked.tests} if asked.separate and asked.tests.dockerfile else None
        return await self._places.open(task, "verifier", rollout, source=source)

    async def _hand_over_all(self, asked: Harbor, agent: Sandbox, verifier: Sandbox) -> list[str]:
        if not asked.separate:
            return []
        return [why for artifact in asked.artifacts if (why := await hand_over(artifact, agent, verifier))]

    async def _blame(self, task: Task, asked: Harbor, what: str, rollout: str) -> dict[str, Any]:
        key = f"{task.instance_id} {hash(asked.model_dump_json())}"
        if key not in self._seconds:
            box = await self._fresh(task, asked, rollout)
            try:
                self._seconds[key] = (await run(asked, box)).result.seconds
            except Spoilt as too:
                why = f"{too}, where no agent was too"
                raise RolloutError("resources", f"the verifier: {why}", retryable=False) from None
            finally:
                await box.delete()
        if self._seconds[key] > asked.timeout * SHARE_OF_TIME:
            took = f"it takes {self._seconds[key]:.0f} s where no agent was"
            raise RolloutError("timeout", f"the verifier: {what}, and {took}: raise its timeout") from None
        return nothing(f"{what}; where no agent was the verifier does its work in {self._seconds[key]:.1f} s")


def nothing(reason: str) -> dict[str, Any]:
    return {"reward": 0.0, "rewards": {}, "reason": reason}


async def hand_over(artifact: Artifact, agent: Sandbox, verifier: Sandbox) -> str:
    """A file or a folder, as far as it is there; the verifier judges what is missing. Why it was left out."""
    source, target = artifact.source, artifact.destination or artifact.source
    try:
        kind, mode, data = await take(agent, source)
    except FileProblem as problem:
        return "" if problem.errno == errno.ENOENT else problem.message
    try:
        await verifier.make_dir(target if kind == "dir" else posixpath.dirname(target) or "/")
        if kind == "dir":
            await verifier.put_tree(target, data)
        elif kind == "file":
            await verifier.put(target, data, mode=mode)
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


async def run(asked: Harbor, box: Sandbox) -> Ran:
    """`Spoilt` where no reward came of it."""
    try:
        for folder in (LOGS, TESTS):  # by our own helper: the agent may have put another `rm` into this file system
            await make_empty(box, folder)
        for path, data in asked.tests.files.items():
            target = posixpath.join(TESTS, path)
            await box.make_dir(posixpath.dirname(target))
            await box.put(target, data, mode=0o755 if path.endswith(".sh") else 0o644)
    except FileProblem as problem:
        raise Spoilt(f"no place could be made for the verifier: {problem.message}") from None
    result = await execute(asked, box)
    if result.timed_out:
        raise Spoilt(f"the verifier did not end in {asked.timeout:g} s")
    return Ran(*await read_reward(box), result)


async def execute(asked: Harbor, box: Sandbox) -> ExecResult:
    try:
        return await box.exec(asked.command, env=asked.env, timeout=asked.timeout, kill_leftovers=True)
    except RolloutError as error:
        if error.retryable:  # an engine's, or a loss
            raise
        raise Spoilt(f"the verifier could not be started: {error.message}") from None


async def make_empty(box: Sandbox, path: str) -> None:
    """A folder of the verifier's own, with nothing in it, and the way to it no link: shown, before anything runs."""
    parts = [part for part in path.split("/") if part]
    for count in range(1, len(parts)):
        await make_real(box, "/" + "/".join(parts[:count]))
    try:
        await box.remove(path, recursive=True)
    except FileProblem as problem:
        if problem.errno not in (errno.ENOENT, errno.EBUSY):  # busy: a volume of the image, which is emptied
            raise
    await box.make_dir(path, mode=0o755)
    info = await box.stat(path)
    if info.kind != "dir" or await box.list(path):
        raise Spoilt(f"{path} could not be emptied")


async def make_real(box: Sandbox, path: str) -> None:
    """A folder that its owner may write in, whatever stands there."""
    try:
        info = await box.stat(path)
    except FileProblem as problem:
        if problem.errno != errno.ENOENT:
            raise
    else:
        if info.kind == "dir" and info.mode & 0o700 == 0o700:
            return
        if info.kind == "dir":
            await box.make_dir(path, mode=(info.mode & 0o7777) | 0o700)
            return
        await box.remove(path)
    await box.make_dir(path, mode=0o755)


async def read_reward(box: Sandbox) -> tuple[float, dict[str, Any], str]:
    """reward.json (`reward`, else its first number) or reward.txt; the verifier wrote neither: it failed."""
    for name in ("reward.json", "reward.txt"):
        try:
            data = await box.get(f"{LOGS}/{name}", length=MAX_REWARD)
        except FileProblem as problem:
            if problem.errno != errno.ENOENT:
                raise Spoilt(f"the verifier's reward cannot be read: {problem.message}") from None
            continue
        try:
            return parse_reward(data)
        except RolloutError as error:
            raise Spoilt(error.message) from None
    raise Spoilt("the verifier wrote no reward")


def parse_reward(data: bytes) -> tuple[float, dict[str, Any], str]:
    try:
        parsed = orjson.loads(data.strip())
    except orjson.JSONDecodeError:
        parsed = None
    rewards = {"reward": parsed} if isinstance(parsed, int | float) else parsed
    numbers = {key: one for key, one in (rewards or {}).items() if _is_number(one)} if isinstance(rewards, dict) else {}
    if not numbers:
        raise RolloutError("resources", f"the verifier's reward is not a number: {data[:80]!r}", retryable=False)
    reward = float(numbers.get("reward", next(iter(numbers.values()))))
    return reward, numbers, "" if reward >= 1 else "the verifier's tests did not all pass"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
