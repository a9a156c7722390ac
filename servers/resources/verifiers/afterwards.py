"""Scores a conversation that is over, by a task's own functions, as the package's `vf-replay` does."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import verifiers.v1 as vf
from pydantic import TypeAdapter, ValidationError
from verifiers.v1.graph import MessageNode
from verifiers.v1.state import state_cls

from gym.wire.chat import input_to_messages, output_to_messages
from gym.wire.failures import RolloutError

MESSAGES: TypeAdapter[list[Any]] = TypeAdapter(vf.Messages)


def why_never(env: vf.Env[Any]) -> str:
    """What keeps all tasks of an environment from being scored afterwards; empty for most."""
    if not isinstance(env, vf.SingleAgentEnv):
        return f"{type(env).__name__} judges while it plays"
    kind = type(env.taskset).task_type()
    task = kind(kind.data_type().model_construct(), env.config.taskset.task)
    wanting = [one.__name__ for one in (*task.hooks("reward"), *task.hooks("metric")) if wants_runtime(one)]
    if wanting:
        return f"{', '.join(wanting)} of {kind.__name__} looks at the runtime"
    return f"{kind.__name__} keeps a state while it is played" if state_cls(kind) is not vf.State else ""


def wants_runtime(function: Any) -> bool:
    parameter = inspect.signature(function).parameters.get("runtime")
    return parameter is not None and parameter.default is inspect.Parameter.empty


async def score(env: vf.Env[Any], task: vf.Task, asked: Any, output: list[dict[str, Any]]) -> vf.Trace:
    """The trace with its scores. Raises what the functions raise, as the package's TaskError."""
    named = vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
    trace = vf.Trace(task=named, state=state_cls(type(task))(), agent=vf.AgentInfo(config=env.config.agent))
    said = output_to_messages(output)
    trace.nodes = list(make_nodes(read_messages(input_to_messages(asked), "row"), read_messages(said, "response")))
    trace.ok = trace.is_completed = True
    await task.score(trace)
    return trace


def make_nodes(asked: list[Any], said: list[Any]) -> Iterator[MessageNode]:
    for number, message in enumerate([*asked, *said]):
        sampled = number >= len(asked) and message.role == "assistant"
        yield MessageNode(parent=number - 1 if number else None, message=message, sampled=sampled)


def read_messages(messages: list[dict[str, Any]], what: str) -> list[Any]:
    try:
        return MESSAGES.validate_python([plain(one) for one in messages])
    except ValidationError as error:
        raise RolloutError("row", f"{what}: no conversation of verifiers: {error.errors()[0]['msg']}") from None


def plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """As the package has messages: texts as texts, calls without the endpoint's envelope."""
    content = message.get("content")
    texts = [one.get("text", "") for one in content] if isinstance(content, list) else None
    if texts is not None and all(one.get("type") == "text" for one in content or ()):
        content = "".join(texts)
    calls = [{"id": one["id"], **one["function"]} for one in message.get("tool_calls") or ()]
    return {**message, "content": content, **({"tool_calls": calls} if calls else {})}
