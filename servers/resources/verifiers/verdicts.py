"""What an episode of verifiers says, as a verdict: scores and metrics by name, or the failure that it was."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean
from typing import Any, Final

import verifiers.v1 as vf

from gym.server.adapters.play_verdict import PlayVerdict
from gym.server.adapters.rewards import check_reward
from gym.wire.failures import FailureKind, RolloutError

KINDS: Final[dict[str, FailureKind]] = {
    "ProviderError": "model",
    "HarnessError": "agent",
    "InterceptionError": "agent",
    "TunnelError": "agent",
    "SandboxError": "sandbox",
    "TimeoutError": "timeout",
}  # of the package's errors, by the boundary that they name; all others are the environment's
OF_THE_POLICY: Final = ("HarnessError", "ProviderError")  # what its words can make a program, or an endpoint, refuse
REFUSED: Final = (400, 413, 422)
SHOWN: Final = 800


def read_episode(episode: vf.Episode) -> PlayVerdict:
    """The reward is the mean over the seats that the policy has: one, for nearly every taskset."""
    for error in episode.errors:
        raise failure_of(error)
    traces = [one for one in episode.traces if one.agent.trainable] or list(episode.traces)
    verdicts = [read_trace(one) for one in traces]
    if len(verdicts) == 1:
        return verdicts[0]
    seats = [{"seat": one.agent.name, **verdict.to_fields()} for one, verdict in zip(traces, verdicts, strict=True)]
    return PlayVerdict(fmean(one.reward for one in verdicts), {"seats": seats})


def scoring_error(episode: vf.Episode) -> vf.Error | None:
    """What a function of the task has raised over what the policy said."""
    found = [one.last_error for one in episode.traces if one.last_error and one.num_turns]
    return next((one for one in found if one.type == "TaskError" and " scoring: " in one.message), None)


def read_trace(trace: vf.Trace) -> PlayVerdict:
    stop = trace.stop_condition or ""
    if not trace.ok:
        error = trace.last_error
        if error is None or not is_of_policy(error, trace):
            raise failure_of(error) if error else RolloutError("resources", f"the play failed: {stop}")
        return PlayVerdict(0.0, {"reason": shorten(error), "stop_condition": stop})
    fields: dict[str, Any] = read_scores(trace) | {"stop_condition": stop}
    if trace.is_truncated or stop == "agent_timeout":
        fields["truncated"] = True
    return PlayVerdict(trace.reward, fields)


def read_scores(trace: vf.Trace) -> dict[str, Any]:
    """Every function's own number. One that did not run, or is not a number, is a failure."""
    for name, given in (*trace.rewards.items(), *trace.metrics.items()):
        if given is None:
            what = f"{name} was not computed: {trace.stop_condition}"
            raise RolloutError("timeout" if trace.is_timeout else "resources", what, retryable=trace.is_timeout)
    for name, reward in trace.rewards.items():
        check_reward(reward.value if reward else None, name)
    scores = {name: {"score": one.score, "weight": one.weight} for name, one in trace.rewards.items() if one}
    return {"scores": scores, "metrics": finite(trace.metrics.items())}


def finite(metrics: Iterable[tuple[str, float | None]]) -> dict[str, float]:
    return {name: check_reward(value, f"the metric {name}") for name, value in metrics}


def is_of_policy(error: vf.Error, trace: vf.Trace) -> bool:
    """A model that is out of order never gets so far: the agent ends the play with its failure."""
    if error.type not in OF_THE_POLICY or not trace.num_turns:
        return False
    return error.type == "HarnessError" or error.status_code in REFUSED


def failure_of(error: vf.Error) -> RolloutError:
    kind = KINDS.get(error.type, "resources")
    return RolloutError(kind, shorten(error), retryable=kind != "resources")


def shorten(error: vf.Error) -> str:
    """Where a traceback ends is what went wrong."""
    said = error.message if len(error.message) <= SHOWN else f"{error.message[:200]} … {error.message[-SHOWN:]}"
    return f"{error.type}: {said}"
