"""Re-runs the verifiers of a collection on what was recorded, and reports which rewards differ.

`/verify` gets the input and the response of the rollout, and no session: fit for verifiers that need nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from gym.collect.result_file import result_file
from gym.collect.run_replies import STAMP
from gym.collect.sidecar import OutputPaths
from gym.collect.study.estimates import Sample
from gym.collect.study.recorded import Inputs, Recorded, read_rollouts
from gym.collect.study.rerun import Difference, OnProgress, RerunOptions, RerunResult
from gym.collect.study.verifiers import Verifiers, for_each, open_verifiers
from gym.data.row_parsing import AGENT_REF
from gym.errors import UserError
from gym.wire.deep_values import write_cut
from gym.wire.failures import RolloutError
from gym.wire.metrics import ROLLOUT, TASK
from gym.wire.splice import splice

UNSAFE = "unsafe_"


async def reverify_rollouts(
    paths: OutputPaths,
    inputs: Inputs,
    options: RerunOptions,
    on_progress: OnProgress,
    *,
    output: Path | None = None,
    force: bool = False,
) -> RerunResult:
    """With `output`, writes the rollouts as verified now, under a name that warns where a verifier was forced."""
    async with open_verifiers(options.stack_url, options.token) as verifiers:
        outcome = RerunResult(modes=await _ask_modes(paths.rollouts, verifiers))
        unfit = {name: mode for name, mode in outcome.modes.items() if mode != "stateless"}
        if unfit and not force:
            raise UserError(_refusal(unfit), "gym replay re-runs the tools too; or add --force, and doubt the result")
        outcome.output = output.with_name(UNSAFE + output.name) if output and unfit else output
        with ExitStack() as stack:
            stream = stack.enter_context(result_file(outcome.output)) if outcome.output else None
            rerun = _Rerun(inputs, options, verifiers, outcome, stream, on_progress)
            await for_each(read_rollouts(paths.rollouts), rerun.verify, at_once=options.concurrency)
        rerun.sum_up()
        return outcome


class _Rerun:
    def __init__(
        self,
        inputs: Inputs,
        options: RerunOptions,
        verifiers: Verifiers,
        outcome: RerunResult,
        stream: BinaryIO | None,
        on_progress: OnProgress,
    ) -> None:
        self._inputs = inputs
        self._options = options
        self._verifiers = verifiers
        self._outcome = outcome
        self._stream = stream
        self._on_progress = on_progress
        self._before, self._now = Sample(), Sample()

    async def verify(self, rollout: Recorded) -> None:
        one = self._inputs.need(rollout)
        server = self._verifiers.of_agent(rollout.agent, rollout.where)
        response = read_response(rollout)
        found: list[Difference] = []
        try:
            async with self._verifiers.rollout(server, self._options.timeout) as client:
                body = await client.verify(one.body, one.fields, response)
            fields, reward = read_verified(body, server)
        except RolloutError as error:
            found.append(Difference(rollout.where, "verify failed", show(rollout.reward), describe_failure(error)))
            self._outcome.add(found, failed=True)
        else:
            if reward != rollout.reward:
                found.append(Difference(rollout.where, "reward", show(rollout.reward), show(reward)))
            self._before.add(rollout.reward)
            self._now.add(reward)
            self._outcome.add(found)
            if self._stream is not None:
                self._stream.write(_verified_line(body, fields, reward, rollout))
        self._on_progress(self._outcome.checked, self._outcome.differing)

    def sum_up(self) -> None:
        if self._now.count:
            self._outcome.mean_recorded, self._outcome.mean_now = self._before.mean, self._now.mean
        self._outcome.sort()


def read_response(rollout: Recorded) -> dict[str, Any]:
    response = rollout.fields.get("response")
    if not isinstance(response, dict):
        raise UserError(f"{rollout.where}: response: is missing, so it cannot be verified")
    return response


def read_verified(body: bytes, server: str) -> tuple[dict[str, Any], float]:
    """The fields and the reward; without a reward of the verifier it raises."""
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RolloutError(
            "resources", f"/verify answered with something that is not JSON: {error}", server=server
        ) from None
    reward = fields.get("reward") if isinstance(fields, dict) else None
    if isinstance(reward, bool) or not isinstance(reward, (int, float)) or not math.isfinite(reward):
        raise RolloutError("resources", f"/verify gave the reward {reward!r}", server=server)
    return fields, float(reward)


def show(reward: float) -> str:
    return f"{reward:g}"


def describe_failure(error: RolloutError) -> str:
    return f"{error.kind}: {error.server + ': ' if error.server else ''}{error.message}"


async def _ask_modes(path: Path, verifiers: Verifiers) -> dict[str, str]:
    """The mode of every resources server whose rollouts are in the file, asked before the first is verified."""
    names = {verifiers.of_agent(agent, where): None for agent, where in _agents(path)}
    if not names:
        raise UserError(f"{path}: no rollouts")
    return {name: await verifiers.reverify_mode(name) for name in names}


def _agents(path: Path) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for rollout in read_rollouts(path):
        if rollout.agent not in seen:
            seen.add(rollout.agent)
            yield rollout.agent, rollout.where


def _refusal(unfit: dict[str, str]) -> str:
    reasons = {
        "unsupported": "says that its rewards need the session of the rollout",
        "unknown": "does not say whether it may be re-run",
    }
    return "\n".join(f"{name} {reasons[mode]} (/reverify_mode: {mode})" for name, mode in unfit.items())


def _verified_line(body: bytes, fields: dict[str, Any], reward: float, rollout: Recorded) -> bytes:
    """The verifier's echo with the rollout's own identity, as `gym rollouts` would have written it."""
    stamp = {**(rollout.fields.get(STAMP) or {}), "reward": reward, "reverified": True}
    names = [name for name in (TASK, ROLLOUT, AGENT_REF) if fields.get(name) != rollout.fields.get(name)]
    added = {**{name: rollout.fields[name] for name in names if name in rollout.fields}, STAMP: stamp}
    if b"\n" in body:
        body = write_cut(fields)
    return splice(body, added, keys=fields.keys()) + b"\n"
