"""Files of a collection as `gym rollouts` leaves them, written for a test from a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from gym.collect.keys import format_key, row_digest
from gym.collect.sidecar import OutputPaths

DATA = {"schema": 1, "data": "d0", "limit": None, "repeats": 1, "shard": "1/1", "agent": "", "params": {}}


def row(task: int, text: str = "", **fields: Any) -> dict[str, Any]:
    """One line of a data set."""
    said = text or f"question {task}"
    return {"responses_create_params": {"input": [{"role": "user", "content": said}]}, **fields}


def ran(
    task: int,
    repeat: int = 0,
    reward: float = 1.0,
    *,
    agent: str = "math",
    given: dict[str, Any] | None = None,
    **extra: Any,
) -> tuple[bytes, bytes]:
    """(materialized input, rollout) of one attempt; `extra` is what the verifier added."""
    raw = orjson.dumps(given or row(task))
    ref = {"type": "responses_api_agents", "name": agent}
    added = {"_ng_task_index": task, "_ng_rollout_index": repeat, "agent_ref": ref}
    body = raw[:-1] + b"," + orjson.dumps(added)[1:]
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"answer {reward}"}]}
    usage = {"input_tokens": 10 + task, "output_tokens": 5, "total_tokens": 15 + task}
    stamp = {"key": format_key(row_digest(raw), repeat), "agent": agent, "reward": reward, "attempt": 1}
    response = {"model": "policy", "output": [said], "usage": usage}
    fields = {**orjson.loads(body), "response": response, "reward": reward, **extra, "_gym": stamp}
    return body + b"\n", orjson.dumps(fields) + b"\n"


def write_collection(
    path: Path, attempts: Sequence[tuple[bytes, bytes]], *, lost: Sequence[tuple[bytes, bytes]] = (), **identity: Any
) -> OutputPaths:
    """A finished collection; `lost` were asked for and failed."""
    paths = OutputPaths.beside(path)
    paths.materialized.write_bytes(b"".join(body for body, _ in (*attempts, *lost)))
    paths.rollouts.write_bytes(b"".join(line for _, line in attempts))
    paths.failures.write_bytes(b'{"kind":"model"}\n' * len(lost))
    paths.metrics.write_bytes(b"[]")
    paths.run.write_bytes(orjson.dumps({"identity": {**DATA, **identity}}))
    return paths
