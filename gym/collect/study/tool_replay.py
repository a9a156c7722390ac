"""Re-runs the tools and the verifier of recorded rollouts, without a model, and reports each difference.

Each rollout is seeded; its recorded calls are issued in their order, with the session's cookies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from gym.collect.sidecar import OutputPaths
from gym.collect.study.estimates import Sample
from gym.collect.study.recorded import Inputs, Recorded, RecordedInput, read_rollouts
from gym.collect.study.rerun import Difference, OnProgress, RerunOptions, RerunResult
from gym.collect.study.reverification import describe_failure, read_response, read_verified, show
from gym.collect.study.verifiers import Verifiers, for_each, open_verifiers
from gym.errors import UserError
from gym.server.rollout_client import RolloutClient
from gym.server.tools import NAME, RESERVED
from gym.wire.deep_values import write_cut
from gym.wire.failures import RolloutError
from gym.wire.items import Item

_SHOWN = 200


async def replay_rollouts(
    paths: OutputPaths, inputs: Inputs, options: RerunOptions, on_progress: OnProgress
) -> RerunResult:
    outcome = RerunResult()
    before, now = Sample(), Sample()
    async with open_verifiers(options.stack_url, options.token) as verifiers:

        async def replay(rollout: Recorded) -> None:
            one = inputs.need(rollout)
            reward = await _replay_one(rollout, one, verifiers, options, outcome)
            if reward is not None:
                before.add(rollout.reward)
                now.add(reward)
            on_progress(outcome.checked, outcome.differing)

        await for_each(read_rollouts(paths.rollouts), replay, at_once=options.concurrency)
    if not outcome.checked:
        raise UserError(f"{paths.rollouts}: no rollouts")
    if now.count:
        outcome.mean_recorded, outcome.mean_now = before.mean, now.mean
    outcome.sort()
    return outcome


async def _replay_one(
    rollout: Recorded, one: RecordedInput, verifiers: Verifiers, options: RerunOptions, outcome: RerunResult
) -> float | None:
    """The reward now; None where a server failed."""
    server = verifiers.of_agent(rollout.agent, rollout.where)
    response = read_response(rollout)
    found: list[Difference] = []
    reward: float | None = None
    async with verifiers.rollout(server, options.timeout) as client:
        try:
            await client.seed(one.body)
            await _call_tools(rollout, response, client, found, outcome)
            _, reward = read_verified(await client.verify(one.body, one.fields, response), server)
        except RolloutError as error:
            found.append(Difference(rollout.where, "failed", show(rollout.reward), describe_failure(error)))
            await _close_session(client, server)
    if reward is not None and reward != rollout.reward:
        found.append(Difference(rollout.where, "reward", show(rollout.reward), show(reward)))
    outcome.add(found, failed=reward is None)
    return reward


async def _call_tools(
    rollout: Recorded, response: dict[str, Any], client: RolloutClient, found: list[Difference], outcome: RerunResult
) -> None:
    agent_tools = called_agents(response)
    for number, (call, recorded) in enumerate(recorded_calls(response.get("output")), 1):
        name = str(call.get("name") or "")
        arguments = call.get("arguments") or "{}"
        if name in agent_tools or not was_issued(name, arguments):
            continue
        outcome.calls += 1
        _, text = await client.call_tool(name, arguments.encode())
        if not same_json(recorded, text):
            found.append(Difference(rollout.where, f"call {number}: {name}", _cut(recorded), _cut(text)))


async def _close_session(client: RolloutClient, server: str) -> None:
    """Closes the session of a failed replay; the server would drop it at its TTL anyway."""
    try:
        await client.send(server, "/close_session", b"{}", kind="resources", hop="close")
    except RolloutError:
        return


def recorded_calls(output: Any) -> Iterator[tuple[Item, Any]]:
    """(call, its recorded output) in the order in which the tools ran. A call without output was never run."""
    waiting: dict[str, Item] = {}
    for item in output if isinstance(output, list) else ():
        if not isinstance(item, dict):
            continue
        call_id = str(item.get("call_id") or item.get("id") or "")
        if item.get("type") == "function_call":
            waiting[call_id] = item
        elif item.get("type") == "function_call_output" and (call := waiting.pop(call_id, None)):
            yield call, item.get("output")


def called_agents(response: dict[str, Any]) -> set[str]:
    """Tools that asked another agent: their output came from a model, and no resources server has them."""
    calls = response.get("agent_calls")
    return {str(call.get("tool")) for call in calls if isinstance(call, dict)} if isinstance(calls, list) else set()


def was_issued(name: str, arguments: Any) -> bool:
    """Whether the agent made the call: it refuses names that no tool can have, and arguments that are not JSON."""
    if name in RESERVED or not NAME.fullmatch(name) or not isinstance(arguments, str):
        return False
    try:
        orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return False
    return True


def same_json(recorded: Any, now: str) -> bool:
    """Equal as JSON where both are; else equal as text."""
    if not isinstance(recorded, str):
        recorded = write_cut(recorded).decode()
    if recorded == now:
        return True
    try:
        return _equal(orjson.loads(recorded), orjson.loads(now))
    except orjson.JSONDecodeError:
        return False


def _equal(one: Any, other: Any) -> bool:
    """1 is 1.0, but not true: Python alone would say so."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _cut(text: Any) -> str:
    whole = text if isinstance(text, str) else write_cut(text).decode()
    return whole if len(whole) <= _SHOWN else f"{whole[:_SHOWN]}... ({len(whole):,} characters)"
