"""Reads replies of `/run` and writes them as lines. Bodies are parsed once and written as they came."""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple

import orjson

from gym.collect.provenance import AttemptInfo, describe_rollout
from gym.collect.task_reader import Task
from gym.data.row_parsing import AGENT_REF
from gym.http.pool import Reply
from gym.wire.deep_values import cut_depth, write_cut
from gym.wire.failures import RolloutError, error_from_reply
from gym.wire.json_text import repair_body
from gym.wire.metrics import ROLLOUT, TASK
from gym.wire.pieces import Body
from gym.wire.policy_endpoint import mask_key, mask_text
from gym.wire.rows import read_rollout
from gym.wire.splice import splice_pieces

STAMP = "_gym"  # the collector's own field, always the last of a line: resume finds it without parsing
FAILURE_CLASS = "_ng_failure_class"
FAILURE_TERMINAL = "_ng_failure_terminal"
TERMINAL = frozenset({"row", "budget"})  # kinds of failures that only a changed row can avoid
NO_PERSIST = "_ng_no_persist"

# Statuses of something on the way (no route, no token), not of an agent that looked at the row.
_NOT_THE_ROW = frozenset({401, 403, 404, 405, 407, 421})


class VerifiedRollout(NamedTuple):
    """A verified rollout."""

    body: bytes
    parsed: dict[str, Any]
    reward: float
    origin: dict[str, Any]  # `describe_rollout` of the reply
    one_line: bool = True  # the body


class SoftFailure(RolloutError):
    """A reply of 200 in which the agent itself says that the rollout failed."""

    def __init__(self, agent: str, parsed: dict[str, Any]) -> None:
        self.parsed = parsed
        self.terminal = bool(parsed.get(FAILURE_TERMINAL))
        reason = parsed.get("_ng_failure_reason") or parsed.get("failure_reason") or ""
        message = f"{parsed[FAILURE_CLASS]}" + (f": {reason}" if reason else "")
        super().__init__("agent", message, server=agent, retryable=not self.terminal)


class NotKept(Exception):  # noqa: N818 (not an error: a valid reply)
    """A reply that asks not to be written down."""


def read_reply(reply: Reply, agent: str, *, unread: bool = False) -> VerifiedRollout:
    """The rollout in a reply; anything else raises, and never counts as a reward of 0.

    `unread`: the long arrays of its items may stay bytes. They are checked all the same.
    """
    if reply.status >= 400:
        raise _refusal(reply, agent)
    body = reply.body
    one_line = b"\n" not in body and b"\r" not in body
    parsed = read_rollout(body) if unread and one_line else None
    if parsed is None:
        body, parsed = _parse(body, reply.status, agent)
    reward = read_reward(parsed, agent)
    return VerifiedRollout(body, parsed, reward, describe_rollout(parsed), one_line)


def read_reward(parsed: dict[str, Any], agent: str) -> float:
    """Of a reply's body; raises as `read_reply` does."""
    if parsed.get(NO_PERSIST):
        raise NotKept
    if parsed.get(FAILURE_CLASS):
        raise SoftFailure(agent, parsed)
    reward = parsed.get("reward")
    if isinstance(reward, bool) or not isinstance(reward, (int, float)) or not math.isfinite(reward):
        found = "no reward" if "reward" not in parsed else f"the reward {str(reward)[:80]!r}, which is not a number"
        raise RolloutError("resources", f"the reply of {agent} holds {found}", server=agent)
    return float(reward)


def without_key(rolled: VerifiedRollout, key: str) -> VerifiedRollout:
    """Our agents repeat no key of a row's own endpoint; others echo the whole row."""
    if not key or (masked := _mask(rolled.parsed, key)) == rolled.parsed:
        return rolled
    return VerifiedRollout(write_cut(masked), masked, rolled.reward, describe_rollout(masked))


def without_key_in_failure(failure: RolloutError, key: str) -> RolloutError:
    if key:
        failure.what = failure.message = mask_text(failure.message, key)
        if isinstance(failure, SoftFailure):
            failure.parsed = _mask(failure.parsed, key)
    return failure


def _mask(parsed: dict[str, Any], key: str) -> dict[str, Any]:
    try:
        masked: dict[str, Any] = mask_key(parsed, key)
    except RecursionError:
        masked = mask_key(cut_depth(parsed), key)
    return masked


def rollout_line(rolled: VerifiedRollout, task: Task, how: AttemptInfo) -> Body:
    """The reply's own bytes and our fields behind them, as one line."""
    body, parsed, reward, origin, one_line = rolled
    stamp = {"key": task.key, "agent": task.agent, "reward": reward, **how.to_dict(), **origin}
    if STAMP in parsed:
        parsed = {name: value for name, value in parsed.items() if name != STAMP}
        body = write_cut(parsed)
    elif not one_line:
        body = write_cut(parsed)
    fields = {name: value for name, value in _identity(task, parsed).items() if parsed.get(name) != value}
    fields[STAMP] = stamp
    return splice_pieces(body, fields, keys=parsed.keys(), end=b"\n")


def rollout_fields(rolled: VerifiedRollout, task: Task) -> dict[str, Any]:
    """What metrics are made of: the fields of its line, and of its stamp what the rollout itself says."""
    return {**rolled.parsed, **_identity(task, rolled.parsed), STAMP: rolled.origin}


def failure_line(failure: RolloutError, task: Task, how: AttemptInfo) -> bytes:
    """A failed rollout as data: the server, the reason, the time and the row. A soft failure keeps its reply."""
    reply = failure.parsed if isinstance(failure, SoftFailure) else {}
    line = {
        **{name: value for name, value in reply.items() if name != STAMP},
        **_identity(task, reply),
        **failure.to_dict(),
        "attempt": how.attempt,
        "row": task.where,
        STAMP: {"key": task.key, "agent": task.agent, "terminal": is_terminal(failure), **how.to_dict()},
    }
    return write_cut(line) + b"\n"


def is_terminal(failure: RolloutError) -> bool:
    """Whether only a changed row would help. Infrastructure gets fixed, so a resume retries the rest."""
    if isinstance(failure, SoftFailure):
        return failure.terminal
    return failure.kind in TERMINAL


def _identity(task: Task, parsed: dict[str, Any]) -> dict[str, Any]:
    echoed = parsed.get(AGENT_REF)
    known = isinstance(echoed, dict) and echoed.get("name") == task.agent
    ref = echoed if known else {"type": "responses_api_agents", "name": task.agent}
    return {TASK: task.task_index, ROLLOUT: task.rollout_index, AGENT_REF: ref}


def _refusal(reply: Reply, agent: str) -> RolloutError:
    failure = error_from_reply(reply.status, reply.body, server=agent, kind="agent")
    if reply.status in _NOT_THE_ROW and failure.kind == "row":
        return RolloutError("agent", failure.message, server=agent, retryable=True)
    return failure


def _parse(body: bytes, status: int, agent: str) -> tuple[bytes, dict[str, Any]]:
    """The body, repaired where its text is broken, and what it says."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        repaired = repair_body(body)
        if repaired == body:
            raise _not_json(body, status, agent, error) from None
        return _parse(repaired, status, agent)
    if not isinstance(parsed, dict):
        raise RolloutError("agent", f"{agent} answered {status} with no JSON object: {_start(body)}", server=agent)
    return body, parsed


def _not_json(body: bytes, status: int, agent: str, error: ValueError) -> RolloutError:
    """NaN is not JSON, and the usual sign of a verifier that divided by zero: the error names it."""
    try:
        loose = json.loads(body)
    except (ValueError, RecursionError):  # also JSON that is nested deeper than anything reads
        return RolloutError("agent", f"{agent} answered {status}, not JSON ({error}): {_start(body)}", server=agent)
    reward = loose.get("reward") if isinstance(loose, dict) else None
    what = f"the reward {reward}" if isinstance(reward, float) and not math.isfinite(reward) else "NaN or Infinity"
    return RolloutError("resources", f"the reply of {agent} holds {what}, which is not a number", server=agent)


def _start(body: bytes) -> str:
    return repr(body[:200].decode("utf-8", "replace"))
