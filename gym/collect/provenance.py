"""Where a rollout comes from: the stack's digests, the model, the seed, the time and tokens of each hop.

All of it fits into the stamp at the end of its line, which a resume reads without the line.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from gym.collect.settings_changes import Settings, describe_changes
from gym.data.row_parsing import PARAMS
from gym.http.pool import Reply
from gym.labels import HEADER_SDK, HEADER_STEPS, HEADER_TOOL_ERRORS
from gym.wire.step_times import read_steps
from gym.wire.token_breaks import find_break

_TIMING, _SDK, _STEPS = b"server-timing", HEADER_SDK.encode(), HEADER_STEPS.encode()
_TOOL_ERRORS = HEADER_TOOL_ERRORS.encode()
_HOP = re.compile(r"([^\s,;][^,;]{0,39});dur=(\d+(?:\.\d+)?)")
BREAK = "tokens_break"
TOOL_ERRORS = "tool_errors"
_MAX_LENGTH = 200  # of a name or digest that a peer chose: a stamp has to stay small
_MAX_HOPS = 8
_NO_FACTS: Mapping[str, Any] = MappingProxyType({})


class AttemptInfo(NamedTuple):
    """How an attempt went, whatever its result."""

    attempt: int
    started: float  # seconds since the epoch
    seconds: float  # of this attempt
    queued: float = 0.0  # seconds between the taking of the row and this attempt: pauses, back-offs, earlier attempts
    stack: str = ""  # digest of the whole stack, and of the agent, when it began
    digest: str = ""
    facts: Mapping[str, Any] = _NO_FACTS  # `describe_headers` of the reply, if there was one

    def to_dict(self) -> dict[str, Any]:
        attempt, started, seconds, queued, stack, digest, facts = self
        fields: dict[str, Any] = {
            "attempt": attempt,
            "started": int(started * 1e3 + 0.5) / 1e3,  # `round` takes 0.7 us for each
            "seconds": int(seconds * 1e4 + 0.5) / 1e4,
            "queued": int(queued * 1e4 + 0.5) / 1e4,
        }
        if stack:
            fields["stack"], fields["digest"] = stack, digest
        fields.update(facts)
        return fields


def describe_headers(reply: Reply) -> dict[str, Any]:
    """What an agent's reply says in its headers, a failure too: `hops` (ms), `steps`, `sdk`, `tool_errors`."""
    headers = dict(reply.headers)
    facts: dict[str, Any] = {}
    if hops := read_timing(headers.get(_TIMING, b"")):
        facts["hops"] = hops
    if _STEPS in headers and (steps := read_steps(headers[_STEPS])):
        facts["steps"] = steps
    if _SDK in headers:
        facts["sdk"] = headers[_SDK][:_MAX_LENGTH].decode("latin-1")
    if _TOOL_ERRORS in headers and re.fullmatch(rb"\d{1,9}", headers[_TOOL_ERRORS]):
        facts[TOOL_ERRORS] = int(headers[_TOOL_ERRORS])
    return facts


def describe_rollout(parsed: Mapping[str, Any]) -> dict[str, Any]:
    """The facts in a verified rollout: `model`, `tokens`, `seed`; `tokens_break` where its token ids do not add up."""
    facts: dict[str, Any] = {}
    response = parsed.get("response")
    if isinstance(response, dict):
        model, usage = response.get("model"), response.get("usage")
        if isinstance(model, str) and model:
            facts["model"] = model[:_MAX_LENGTH]
        if isinstance(usage, dict):
            facts["tokens"] = _tokens(usage)
        if broken := find_break(response.get("output")):
            facts[BREAK] = broken
    params = parsed.get(PARAMS)
    seed = params.get("seed") if isinstance(params, dict) else None
    if isinstance(seed, int) and not isinstance(seed, bool) and abs(seed) < 1 << 63:
        facts["seed"] = seed
    return facts


def read_timing(value: bytes) -> dict[str, float]:
    """`seed;dur=1.5, model;dur=20.0` -> {"seed": 1.5, "model": 20.0}; other entries are skipped."""
    found = _HOP.findall(value[:1000].decode("latin-1"))
    return {name: float(duration) for name, duration in found[:_MAX_HOPS]}


def digest_stack(instances: Mapping[str, str]) -> str:
    """One digest for all instances; "" where the stack gives none."""
    known = sorted(pair for pair in instances.items() if pair[1])
    return hashlib.sha256(repr(known).encode()).hexdigest()[:16] if known else ""


def differences(
    before: Mapping[str, str], now: Mapping[str, str], then_set: Settings | None = None, now_set: Settings | None = None
) -> list[str]:
    """Instances that have changed, with the settings that did. One that was added had no part in earlier rollouts."""
    found = []
    for name, digest in sorted(before.items()):
        if name not in now:
            found.append(f"{name}: is not in this stack")
        elif digest and now[name] and digest != now[name]:
            changes = describe_changes((then_set or {}).get(name) or {}, (now_set or {}).get(name) or {})
            found.append(f"{name}: {changes or 'has changed (its digest is another one)'}")
    return found


def _tokens(usage: Mapping[str, Any]) -> dict[str, int]:
    read, wrote = usage.get("input_tokens"), usage.get("output_tokens")
    if isinstance(read, int) and isinstance(wrote, int):
        return {"input": read, "output": wrote}
    return {name: count for name, count in (("input", read), ("output", wrote)) if isinstance(count, int)}
