"""What `verifiers` saves from 0.4 on, `traces.jsonl`: a line for each episode, in it a trace for each of its agents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from gym.collect.run_replies import FAILURE_CLASS, STAMP
from gym.console.viewer.chat_logs import make_row, split_chat
from gym.console.viewer.facts import mapping, parse_line
from gym.data.row_parsing import AGENT_REF, PARAMS

MAX_MESSAGE: Final = 10_000  # characters of an error
Json = dict[str, Any]


def is_trace(line: bytes) -> bool:
    row, _ = parse_line(line)
    return row is not None and {"env", "task", "traces"} <= row.keys() and PARAMS not in row


def read_traces(path: Path) -> Iterator[Json]:
    """A rollout for each trace; an episode without one failed before. A line that cannot be read stays out."""
    tasks: dict[str, int] = {}
    repeats: Counter[tuple[int, str]] = Counter()
    with path.open("rb") as stream:
        for line in stream:
            episode, _ = parse_line(line)
            if episode is None:
                continue
            about = mapping(episode.get("task"))
            task = tasks.setdefault(str(about.get("key") or _data(about).get("idx")), len(tasks))
            for trace in _list(episode.get("traces")) or [{"task": about, "errors": episode.get("errors")}]:
                agent = _agent(trace, mapping(episode.get("env")))
                yield _read_trace(trace, task, repeats[task, agent], agent)
                repeats[task, agent] += 1


def _read_trace(trace: Json, task: int, repeat: int, agent: str) -> Json:
    calls, data = _list(trace.get("calls")), _data(mapping(trace.get("task")))
    asked, output = split_chat(_conversation(_list(trace.get("nodes"))))
    cut = any(one.get("finish_reason") == "length" for one in calls)
    response = {
        "output": output,
        "model": next((str(one["model"]) for one in reversed(calls) if one.get("model")), ""),
        **_usage(trace),
        **({"status": "incomplete"} if cut else {}),
        "tools": _list(trace.get("tools")),
    }
    row = make_row(task, repeat, asked or split_chat(_prompt(data))[0], response)
    response.pop("tools", None)
    words = {name: value for name, value in data.items() if isinstance(value, str) and name != "prompt"}
    return {**words, **row, AGENT_REF: {"name": agent}, **_result(trace), STAMP: _stamp(mapping(trace.get("timing")))}


def _result(trace: Json) -> Json:
    """The weighted sum of its rewards. What was not scored because of an error is a failure and no reward."""
    rewards = {name: one for name, one in mapping(trace.get("rewards")).items() if isinstance(one, dict)}
    scores = {name: one["score"] for name, one in rewards.items() if isinstance(one.get("score"), (int, float))}
    errors = _list(trace.get("errors"))
    if errors and not scores:
        last = errors[-1]
        return {
            FAILURE_CLASS: str(last.get("type") or "error")[:100],
            "message": str(last.get("message"))[:MAX_MESSAGE],
        }
    metrics = {name: one for name, one in mapping(trace.get("metrics")).items() if isinstance(one, (int, float))}
    found: Json = {**metrics, "scores": scores, "stop_condition": trace.get("stop_condition")}
    if scores:
        found["reward"] = float(sum(score * _weight(rewards[name]) for name, score in scores.items()))
    return found


def _conversation(nodes: list[Json]) -> list[Json]:
    """The way from the root to the last message; other branches of its graph have no place in a conversation."""
    found: list[Json] = []
    at: Any = len(nodes) - 1
    while isinstance(at, int) and 0 <= at < len(nodes):
        found.append(mapping(nodes[at].get("message")))
        before = nodes[at].get("parent")
        at = before if isinstance(before, int) and before < at else None
    return found[::-1]


def _prompt(data: Json) -> list[Json]:
    prompt = data.get("prompt")
    return [{"role": "user", "content": prompt}] if isinstance(prompt, str) else _list(prompt)


def _usage(trace: Json) -> Json:
    usages = [mapping(one.get("usage")) for one in _list(trace.get("calls"))]
    names = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens"}
    counts = {name: sum(int(one.get(key) or 0) for one in usages) for name, key in names.items()}
    total = sum(counts.values())
    return {"usage": {**counts, "total_tokens": total}} if total else {}


def _stamp(timing: Json) -> Json:
    """Until the last of its stages that ended."""
    start = timing.get("start")
    if not isinstance(start, (int, float)):
        return {}
    ends = [one.get("end") for one in timing.values() if isinstance(one, dict)]
    end = max((one for one in ends if isinstance(one, (int, float))), default=0.0)
    return {"started": start, **({"seconds": end - start} if end > start else {})}


def _agent(trace: Json, env: Json) -> str:
    """The environment's name; where several agents play in it, theirs behind it."""
    name, agent = str(env.get("id") or "verifiers"), str(mapping(trace.get("agent")).get("name") or "agent")
    return name if agent == "agent" else f"{name}.{agent}"


def _weight(reward: Json) -> float:
    weight = reward.get("weight", 1.0)
    return float(weight) if isinstance(weight, (int, float)) else 1.0


def _data(task: Json) -> Json:
    return mapping(task.get("data"))


def _list(value: Any) -> list[Json]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
