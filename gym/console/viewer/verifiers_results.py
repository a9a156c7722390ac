"""What `verifiers` saves of an evaluation, `results.jsonl`, as rollouts: one line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gym.collect.run_replies import FAILURE_CLASS, STAMP
from gym.console.viewer.chat_logs import asked_items, make_row, message_items
from gym.console.viewer.facts import mapping, parse_line
from gym.data.row_parsing import AGENT_REF, PARAMS
from gym.files import read_object

_USAGE = {"input_tokens": "input_tokens", "output_tokens": "output_tokens"}
_TAKEN = frozenset(
    ("example_id", "id", "prompt", "completion", "reward", "error", "timing", "metrics", "tool_defs", "token_usage")
)


def is_result(line: bytes) -> bool:
    row, _ = parse_line(line)
    return row is not None and {"prompt", "completion", "reward"} <= row.keys() and PARAMS not in row


def read_results(path: Path) -> Iterator[dict[str, Any]]:
    """A line that cannot be read stays out; the last one may be torn."""
    about = read_object(path.with_name("metadata.json"))
    tasks: dict[str, int] = {}
    repeats: Counter[int] = Counter()
    with path.open("rb") as stream:
        for line in stream:
            row, _ = parse_line(line)
            if row is None:
                continue
            example = str(row.get("example_id", row.get("id", row.get("prompt"))))
            task = tasks.setdefault(example, len(tasks))
            yield _read_row(row, task, repeats[task], about)
            repeats[task] += 1


def _read_row(row: Mapping[str, Any], task: int, repeat: int, about: Mapping[str, Any]) -> dict[str, Any]:
    completion = row.get("completion")
    said = [{"role": "assistant", "content": completion}] if isinstance(completion, str) else completion or []
    usage = mapping(row.get("token_usage"))
    counts = {name: int(usage[key]) for name, key in _USAGE.items() if isinstance(usage.get(key), (int, float))}
    counts |= {"total_tokens": sum(counts.values())} if len(counts) == len(_USAGE) else {}
    response = {
        "output": [item for one in said if isinstance(one, dict) for item in message_items(one)],
        "model": str(about.get("model") or ""),
        **({"usage": counts} if counts else {}),
        **({"status": "incomplete"} if row.get("is_truncated") is True else {}),
        "tools": row.get("tool_defs") or [],
    }
    found = make_row(task, repeat, asked_items(row.get("prompt")), response)
    response.pop("tools", None)
    found[AGENT_REF] = {"name": str(about.get("env_id") or "verifiers")}
    if row.get("error"):
        found |= {FAILURE_CLASS: _error_name(row["error"]), "message": str(row["error"])[:10_000]}
    else:
        found["reward"] = row.get("reward")
    metrics = mapping(row.get("metrics"))
    added = {name: value for name, value in row.items() if name not in _TAKEN and name not in metrics}
    return {**found, **metrics, **added, STAMP: _stamp(row.get("timing"))}


def _stamp(timing: Any) -> dict[str, Any]:
    """Seconds in newer files, milliseconds in older ones."""
    timing = mapping(timing)
    milliseconds = timing.get("total_ms")
    seconds = timing.get("total", milliseconds / 1000 if isinstance(milliseconds, (int, float)) else None)
    found = {"seconds": seconds, "started": timing.get("start_time")}
    return {name: value for name, value in found.items() if isinstance(value, (int, float))}


def _error_name(error: Any) -> str:
    name = error.get("error") or error.get("type") if isinstance(error, dict) else ""
    return str(name or "error")[:100]
