"""Where a rollout comes from: the stack's digests, the model, the seed, the time and tokens of each hop.

All of it fits into the stamp at the end of its line, which a resume reads without the line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gym.data.row_parsing import PARAMS
from gym.http.pool import Reply
from gym.labels import HEADER_SDK
from gym.wire.token_ids import find_break

_TIMING, _SDK = b"server-timing", HEADER_SDK.encode()
BREAK = "tokens_break"
_LONGEST = 200  # of a name or digest that a peer chose: a stamp has to stay small
_MOST_HOPS = 8


@dataclass(frozen=True, slots=True)
class Circumstances:
    """How an attempt went, whatever became of it."""

    attempt: int
    started: float  # seconds since the epoch
    seconds: float  # of this attempt
    queued: float = 0.0  # seconds between the taking of the row and this attempt: pauses, back-offs, earlier attempts
    stack: str = ""  # digest of the whole stack, and of the agent, when it began
    digest: str = ""
    told: Mapping[str, Any] = field(default_factory=dict)  # `describe_headers` of the reply, where there was one

    def to_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "attempt": self.attempt,
            "started": round(self.started, 3),
            "seconds": round(self.seconds, 4),
            "queued": round(self.queued, 4),
        }
        if self.stack:
            told["stack"], told["digest"] = self.stack, self.digest
        return {**told, **self.told}


def describe_headers(reply: Reply) -> dict[str, Any]:
    """What any reply of an agent says of itself, a failure too: `hops` (ms), `sdk`."""
    told: dict[str, Any] = {}
    for name, value in reply.headers:
        if name == _TIMING and (hops := read_timing(value)):
            told["hops"] = hops
        elif name == _SDK:
            told["sdk"] = value[:_LONGEST].decode("latin-1")
    return told


def describe_rollout(parsed: Mapping[str, Any]) -> dict[str, Any]:
    """What a verified rollout says: `model`, `tokens`, `seed`; `tokens_break` where its token ids do not add up."""
    told: dict[str, Any] = {}
    response = parsed.get("response")
    if isinstance(response, dict):
        model, usage = response.get("model"), response.get("usage")
        if isinstance(model, str) and model:
            told["model"] = model[:_LONGEST]
        if isinstance(usage, dict):
            told["tokens"] = _tokens(usage)
        if broken := find_break(response.get("output")):
            told[BREAK] = broken
    params = parsed.get(PARAMS)
    seed = params.get("seed") if isinstance(params, dict) else None
    if isinstance(seed, int) and not isinstance(seed, bool) and abs(seed) < 1 << 63:
        told["seed"] = seed
    return told


def read_timing(value: bytes) -> dict[str, float]:
    """`seed;dur=1.5, model;dur=20.0` -> {"seed": 1.5, "model": 20.0}; what is no such entry is passed over."""
    hops: dict[str, float] = {}
    for entry in value[:1000].decode("latin-1").split(",")[:_MOST_HOPS]:
        name, _, duration = entry.strip().partition(";dur=")
        try:
            hops[name[:40]] = float(duration)
        except ValueError:
            continue
    return hops


def digest_stack(instances: Mapping[str, str]) -> str:
    """One digest for all instances; "" where the stack tells none."""
    known = sorted(pair for pair in instances.items() if pair[1])
    return hashlib.sha256(repr(known).encode()).hexdigest()[:16] if known else ""


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Instances that are others than they were. What came along since had no part in the earlier rollouts."""
    found = []
    for name, digest in sorted(before.items()):
        if name not in now:
            found.append(f"{name}: is not in this stack")
        elif digest and now[name] and digest != now[name]:
            found.append(f"{name}: {digest[:12]} then, {now[name][:12]} now")
    return found


def _tokens(usage: Mapping[str, Any]) -> dict[str, int]:
    counts = {"input": usage.get("input_tokens"), "output": usage.get("output_tokens")}
    return {name: count for name, count in counts.items() if isinstance(count, int)}
