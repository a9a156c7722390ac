"""Recorded model calls as sequences: the items, and the tokens, of one conversation each.

A program may hold several at once (sub-agents), or start over with a summary of what was said (compaction). A call
continues a conversation when its prompt begins with all of it: its items and, where they are known, its tokens. So in
one sequence each prompt begins with the prompt and the generation before it. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from gym.wire import items
from gym.wire.anthropic import messages_to_responses
from gym.wire.chat import completion_to_response
from gym.wire.completions import chat_to_responses
from gym.wire.failures import RolloutError
from gym.wire.items import Item

TOKENS: Final = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
Mark = tuple[str, ...]  # what two forms of the same item have in common


@dataclass
class CallSequence:
    """`input` is what it began with; `output` all that came after: what the model said, and what it was given."""

    input: list[Item]
    tools: list[Item]
    model: str
    output: list[Item] = field(default_factory=list)
    usage: dict[str, Any] | None = None
    calls: list[int] = field(default_factory=list)  # indices of the recorded calls
    marks: list[Mark] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)  # of the last prompt and the generation after it

    def to_fields(self) -> dict[str, Any]:
        params = {"input": self.input, "tools": self.tools}
        return {"responses_create_params": params, "output": self.output, "usage": self.usage, "calls": self.calls}


def sequences_of(calls: Iterable[Mapping[str, Any]]) -> list[CallSequence]:
    """Of `calls` of a trace, in their order: those that were answered. Ordered by their last call."""
    found: list[CallSequence] = []
    for call in calls:
        if int(call.get("status") or 0) >= 400:
            continue
        one = read_call(call)
        if one is None:
            continue
        former = max((each for each in found if continues(one, each)), key=lambda each: len(each.marks), default=None)
        if former is not None:
            extend(former, one)
            found.remove(former)
        found.append(former or one)
    return found


def read_call(call: Mapping[str, Any]) -> CallSequence | None:
    """One call as a conversation of its own; None where its dialect cannot be read."""
    request, reply = call.get("request"), call.get("reply")
    if not isinstance(request, dict) or not isinstance(reply, dict):
        return None
    try:
        params, output, usage = READERS[str(call.get("dialect"))](request, reply)
    except (RolloutError, KeyError):
        return None
    if not output:
        return None
    given = items.input_items(params.get("input"))
    if params.get("instructions"):
        given = [items.message(str(params["instructions"]), role="system"), *given]
    tokens = {name: call[name] for name in TOKENS if call.get(name)}
    said = [{key: value for key, value in item.items() if key not in TOKENS} for item in output]
    if len(tokens) == len(TOKENS):
        said[-1] |= tokens
    return CallSequence(
        given,
        list(params.get("tools") or ()),
        str(reply.get("model") or request.get("model") or ""),
        said,
        usage,
        [int(call.get("index") or 0)],
        marks_of([*given, *said]),
        [*tokens["prompt_token_ids"], *tokens["generation_token_ids"]] if len(tokens) == len(TOKENS) else [],
    )


def continues(one: CallSequence, former: CallSequence) -> bool:
    """Whether the prompt of `one` begins with all of `former`."""
    asked = marks_of(one.input)
    if len(asked) < len(former.marks) or asked[: len(former.marks)] != former.marks:
        return False
    if not (one.tokens and former.tokens):
        return not former.tokens and not one.tokens
    prompt = len(one.tokens) - len(one.output[-1]["generation_token_ids"])
    return len(former.tokens) <= prompt and one.tokens[: len(former.tokens)] == former.tokens


def extend(former: CallSequence, one: CallSequence) -> None:
    former.output += items_after(one.input, len(former.marks)) + one.output
    former.usage = items.add_usage(former.usage, one.usage)
    former.calls += one.calls
    former.marks, former.tokens = one.marks, one.tokens


def items_after(given: list[Item], marks: int) -> list[Item]:
    """What is left of `given` behind its first `marks` marked items; thoughts that came back are the model's own."""
    left = []
    for item in given:
        if marks and mark_of(item) is not None:
            marks -= 1
        elif not marks and item.get("type") != "reasoning":
            left.append(item)
    return left


def marks_of(given: Iterable[Item]) -> list[Mark]:
    return [mark for mark in map(mark_of, given) if mark is not None]


def mark_of(item: Item) -> Mark | None:
    """None for what a program may leave out without changing the conversation: thoughts, and messages without text."""
    kind = item.get("type") or "message"
    if kind == "function_call":
        return "call", str(item.get("name")), _compact(item.get("arguments"))
    if kind == "function_call_output":
        output = item.get("output")
        return "result", output.strip() if isinstance(output, str) else items.item_text({"content": output}).strip()
    if kind != "message":
        return None if kind == "reasoning" else (kind, orjson.dumps(item, option=orjson.OPT_SORT_KEYS).decode())
    role = "system" if item.get("role") == "developer" else str(item.get("role"))
    text = items.item_text(item).strip()
    return (role, text) if text or role != "assistant" else None


def _compact(arguments: Any) -> str:
    """Clients write the same arguments with other blanks."""
    try:
        return orjson.dumps(orjson.loads(arguments or "{}"), option=orjson.OPT_SORT_KEYS).decode()
    except (orjson.JSONDecodeError, TypeError):
        return str(arguments)


def _read_chat(
    request: dict[str, Any], reply: dict[str, Any]
) -> tuple[dict[str, Any], list[Item], dict[str, Any] | None]:
    params = chat_to_responses(request)
    response = completion_to_response(reply, params)
    return params, response["output"], response.get("usage")


def _read_responses(
    request: dict[str, Any], reply: dict[str, Any]
) -> tuple[dict[str, Any], list[Item], dict[str, Any] | None]:
    return request, [item for item in reply.get("output") or () if isinstance(item, dict)], reply.get("usage")


def _read_message(
    request: dict[str, Any], reply: dict[str, Any]
) -> tuple[dict[str, Any], list[Item], dict[str, Any] | None]:
    said = messages_to_responses({"messages": [{"role": "assistant", "content": reply.get("content") or []}]})
    usage = reply.get("usage") or {}
    counts = items.text_usage(int(usage.get("input_tokens") or 0), int(usage.get("output_tokens") or 0))
    return messages_to_responses(request), said["input"], counts


READERS: Final = {"chat_completions": _read_chat, "responses": _read_responses, "messages": _read_message}
