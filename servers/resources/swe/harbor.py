"""Harbor and terminal-bench tasks: the verifier runs in a sandbox of its own, and the reward is what it wrote there."""

from __future__ import annotations

import math
import posixpath
from contextlib import suppress
from typing import Any, Final

import orjson
from places import Places
from tasks import Artifact, Harbor, Task

from gym.sandbox.client import FileProblem, Sandbox
from gym.wire.failures import RolloutError

LOGS: Final = "/logs/verifier"
TESTS: Final = "/tests"
MOST_ARTIFACT: Final = 256 << 20
MOST_REWARD: Final = 64 << 10


async def grade(task: Task, asked: Harbor, agent: Sandbox | None, places: Places, rollout: str) -> dict[str, Any]:
    if agent is None:
        raise RolloutError("row", "a Harbor task is graded by what the agent left: seed a session first")
    verifier = await _verifier(task, asked, agent, places, rollout)
    try:
        if asked.separate:
            for artifact in asked.artifacts:
                await hand_over(artifact, agent, verifier)
        await agent.delete()
        return await _run(asked, verifier)
    finally:
        await verifier.delete()


async def _verifier(task: Task, asked: Harbor, agent: Sandbox, places: Places, rollout: str) -> Sandbox:
    """Its own image, or the agent's files: never the agent's processes, which could go on to write rewards."""
    if asked.separate:
        source = {"build": asked.tests} if asked.tests.dockerfile else None
        return await places.open(task, "verifier", rollout, source=source)
    return await agent.fork(rollout=rollout)


async def hand_over(artifact: Artifact, agent: Sandbox, verifier: Sandbox) -> None:
    """A file or a folder, as far as it is there; the verifier judges what is missing."""
    target = artifact.destination or artifact.source
    try:
        info = await agent.stat(artifact.source)
        if info.kind == "dir":
            await verifier.make_dir(target)
            await verifier.put_tree(target, await agent.get_tar(artifact.source))
        elif info.kind == "file" and info.size <= MOST_ARTIFACT:
            await verifier.make_dir(posixpath.dirname(target) or "/")
            await verifier.put(target, await agent.get(artifact.source), mode=info.mode & 0o777)
    except FileProblem:
        return


async def _run(asked: Harbor, box: Sandbox) -> dict[str, Any]:
    for folder in (LOGS, TESTS):  # by our own helper: the agent may have put another `rm` into this file system
        with suppress(FileProblem):
            await box.remove(folder, recursive=True)
        await box.make_dir(folder)
    for path, data in asked.tests.files.items():
        target = posixpath.join(TESTS, path)
        await box.make_dir(posixpath.dirname(target))
        await box.put(target, data, mode=0o755 if path.endswith(".sh") else 0o644)
    result = await box.exec(asked.command, env=asked.env, timeout=asked.timeout, kill_leftovers=True)
    log = (result.stdout.text + result.stderr.text)[-4000:]
    fields = {"verifier_exit_code": result.exit_code, "verifier_log": log, "verifier_sandbox": box.id}
    if result.timed_out:
        raise RolloutError("timeout", f"the verifier did not end in {asked.timeout:g} s")
    reward, rewards, reason = await read_reward(box)
    return {"reward": reward, "rewards": rewards, **fields, **({"reason": reason} if reason else {})}


async def read_reward(box: Sandbox) -> tuple[float, dict[str, Any], str]:
    """reward.json (`reward`, else its first number) or reward.txt; the verifier wrote neither: it failed."""
    for name in ("reward.json", "reward.txt"):
        try:
            info = await box.stat(f"{LOGS}/{name}")
            data = await box.get(f"{LOGS}/{name}", length=MOST_REWARD)
        except FileProblem:
            continue
        if info.kind == "file":
            return parse_reward(data)
    raise RolloutError("resources", "the verifier wrote no reward", retryable=False)


def parse_reward(data: bytes) -> tuple[float, dict[str, Any], str]:
    try:
        parsed = orjson.loads(data.strip())
    except orjson.JSONDecodeError:
        parsed = None
    rewards = {"reward": parsed} if isinstance(parsed, int | float) else parsed
    numbers = {key: one for key, one in (rewards or {}).items() if _is_number(one)} if isinstance(rewards, dict) else {}
    if not numbers:
        raise RolloutError("resources", f"the verifier's reward is no number: {data[:80]!r}", retryable=False)
    reward = float(numbers.get("reward", next(iter(numbers.values()))))
    return reward, numbers, "" if reward >= 1 else "the verifier's tests did not all pass"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
