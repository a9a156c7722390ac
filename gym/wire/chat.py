"""Responses requests converted for a chat endpoint, and its replies to Responses replies: pure functions on dicts.

What a chat endpoint cannot express is a `RolloutError` of kind `row` that names the place; unknown parameters pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from gym.wire import items
from gym.wire.answers import cut_out
from gym.wire.failures import RolloutError, reading
from gym.wire.items import Item
from gym.wire.json_text import write_json
from gym.wire.thoughts import items_thoughts, split_thoughts, think_tags

TOKEN_FIELDS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs", "routed_experts")
RESPONSES_ONLY = frozenset(
    [
        "background",
        "include",
        "input",
        "instructions",
        "max_output_tokens",
        "max_tool_calls",
        "parallel_tool_calls",
        "previous_response_id",
        "prompt",
        "reasoning",
        "stream",
        "text",
        "tool_choice",
        "tools",
        "truncation",
    ]
)
AS_GENERATED = "as_generated"  # on a reasoning item: the whole text, where its parts do not add up to it
FINISH = {"length": "max_output_tokens", "content_filter": "content_filter"}


@reading("row", "the request")
def responses_to_chat(params: Mapping[str, Any], *, token_fields: bool = False) -> dict[str, Any]:
    """Converts a request. `token_fields` sends an earlier turn's token ids back with its assistant message."""
    for key in ("previous_response_id", "prompt"):
        if params.get(key) is not None:
            raise row_error(f"`{key}` needs a Responses endpoint that keeps state; this model has a chat endpoint")
    body = {key: value for key, value in params.items() if key not in RESPONSES_ONLY and value is not None}
    if not body.get("metadata"):
        body.pop("metadata", None)
    body["messages"] = input_to_messages(params.get("input", ""), params.get("instructions"), token_fields)
    if params.get("max_output_tokens") is not None:
        body["max_tokens"] = params["max_output_tokens"]
    if effort := (params.get("reasoning") or {}).get("effort"):
        body["reasoning_effort"] = effort
    if shape := (params.get("text") or {}).get("format"):
        body["response_format"] = _format_to_chat(shape)
    if "top_logprobs" in body:
        body["logprobs"] = True
    return body | _tools_to_chat(params)


def input_to_messages(value: Any, instructions: Any = None, token_fields: bool = False) -> list[Item]:
    if isinstance(value, str):
        messages: list[Item] = [{"role": "user", "content": [{"type": "text", "text": value}]}]
    else:
        turns = _Turns(token_fields)
        for index, item in enumerate(value or ()):
            turns.add(item, f"input[{index}]")
        messages = turns.finish()
    return _merge_system(instructions, messages)


SPEAKERS: Final = frozenset(("assistant", "user", "system", "developer"))


def output_to_messages(output: Any) -> list[Item]:
    """What a policy has said. Items of kinds that no chat has are left out: they say nothing."""
    return input_to_messages([one for one in output if _is_sayable(one)])


def _is_sayable(item: Any) -> bool:
    if not isinstance(item, dict):
        return False
    if (item.get("type") or "message") == "message" and item.get("role") not in SPEAKERS:
        return False
    try:
        input_to_messages([item])
    except RolloutError:
        return False
    return True


@reading("model", "the reply")
def completion_to_response(completion: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a reply. Token fields go onto the last output item; `<think>` blocks become one reasoning item."""
    choice = first_choice(completion)
    output = message_to_items(choice["message"])
    return items.response(
        output,
        model=str(completion.get("model") or params.get("model") or ""),
        params=params,
        usage=_usage_to_responses(completion.get("usage")),
        incomplete=FINISH.get(str(choice.get("finish_reason")), ""),
    )


def first_choice(completion: Mapping[str, Any]) -> dict[str, Any]:
    """The first choice, which has a message; else the reply is a failure."""
    choices = completion.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict) or not isinstance(choice.get("message"), dict):
        raise RolloutError("model", f"the reply has no choices[0].message: {str(completion)[:300]}")
    error = completion.get("error") or choice.get("error")
    end = choice.get("finish_reason")
    if error or end in ("error", "abort"):  # of what serves the policy, so no answer of its own
        why = "it aborted the generation" if end == "abort" else f"{end}: {str(error)[:300]}"
        raise RolloutError("model", f"the provider's reply is not an answer: {why}")
    return choice


def message_to_items(message: dict[str, Any]) -> list[Item]:
    """The output items of one assistant message: reasoning, text or refusal, calls."""
    thoughts, text = split_thoughts(message)
    calls = [call for call in message.get("tool_calls") or () if isinstance(call, dict)]
    output: list[Item] = []
    if thoughts:
        summary = [{"type": "summary_text", "text": thought} for thought in thoughts]
        output.append({"type": "reasoning", "id": items.new_id("rs"), "summary": summary})
        whole = items.item_text(message)
        if "<think>" in whole and think_tags(thoughts) + text != whole:
            output[-1][AS_GENERATED] = whole
    if message.get("refusal"):
        refused = items.message("")
        refused["content"] = [{"type": "refusal", "refusal": message["refusal"]}]
        output.append(refused)
    elif text or not (output or calls):
        output.append(items.message(text))
    output.extend(_call_to_item(call) for call in calls)
    output[-1].update(tokens_of(message))
    return output


def last_tokens(output: Iterable[Any]) -> dict[str, Any]:
    """The token fields of the last item that has any."""
    found: dict[str, Any] = {}
    for item in output:
        found = tokens_of(item) or found
    return found


def tokens_of(item: Any) -> dict[str, Any]:
    """The token fields of an item or message; no generated token means none of them."""
    if not isinstance(item, dict) or not item.get("generation_token_ids"):
        return {}
    return {key: item[key] for key in TOKEN_FIELDS if item.get(key) is not None}


def length_completion(model: str) -> dict[str, Any]:
    """What a chat endpoint would say if it had no room for a single token: empty, finished by length."""
    choice = {"index": 0, "message": {"role": "assistant", "content": ""}, "finish_reason": "length"}
    return {"id": items.new_id("chatcmpl"), "object": "chat.completion", "model": model, "choices": [choice]}


class _Turns:
    """Chat messages under construction: neighbouring assistant items share one message, the rest have their own."""

    def __init__(self, token_fields: bool) -> None:
        self._token_fields = token_fields
        self._done: list[Item] = []
        self._text = ""
        self._thought: Item | None = None  # its text depends on the item after it
        self._calls: list[Item] = []
        self._tokens: dict[str, Any] = {}
        self._open = False

    def add(self, item: Any, where: str) -> None:
        if not isinstance(item, dict):
            raise row_error(f"{where} is not an object: {str(item)[:80]}")
        kind = item.get("type") or "message"
        if kind == "function_call_output":
            self._close()
            output = _output_text(item.get("output"), where)
            self._done.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": output})
        elif kind == "message" and item.get("role") != "assistant":
            self._close()
            self._done.append(_input_message(item, where))
        elif kind in ("message", "reasoning", "function_call"):
            self._extend(kind, item)
        else:
            raise row_error(f"{where}: an item of type `{kind}` cannot be sent to a chat model")

    def finish(self) -> list[Item]:
        self._close()
        return self._done

    def _extend(self, kind: str, item: Item) -> None:
        self._open = True
        if kind == "reasoning":
            self._say("")
            self._thought = item
        elif kind == "function_call":
            self._calls.append(item_to_call(item))
        else:
            self._say(items.item_text(item) + "".join(refusals([item])))
            self._calls.extend(item.get("tool_calls") or ())
        if self._token_fields:
            self._tokens = tokens_of(item) or self._tokens

    def _say(self, text: str) -> None:
        """What was thought before and this, as the model wrote it where that is known: so its tokens stay the same."""
        thought, self._thought = self._thought, None
        if thought is None:
            self._text += text
            return
        whole = thought.get(AS_GENERATED)
        same = isinstance(whole, str) and cut_out(whole, "<think>", "</think>")[1] == text
        self._text += whole if isinstance(whole, str) and same else think_tags(items_thoughts([thought])) + text

    def _close(self) -> None:
        if not self._open:
            return
        self._say("")
        message: Item = {"role": "assistant", "content": self._text or None}
        if self._calls:
            message["tool_calls"] = self._calls
        self._done.append(message | self._tokens)
        self._text, self._calls, self._tokens, self._open = "", [], {}, False


def _merge_system(instructions: Any, messages: list[Item]) -> list[Item]:
    leading = 0
    while leading < len(messages) and messages[leading]["role"] in ("system", "developer"):
        leading += 1
    texts = [instructions] if instructions else []
    texts += [items.item_text(message) for message in messages[:leading]]
    if not texts:
        return messages
    return [{"role": "system", "content": "\n\n".join(texts)}, *messages[leading:]]


def _input_message(item: Item, where: str) -> Item:
    content = item.get("content")
    if isinstance(content, list):
        content = [_part_to_chat(part, f"{where}.content[{index}]") for index, part in enumerate(content)]
    message = {"role": item.get("role"), "content": content}
    if item.get("tool_call_id"):
        message["tool_call_id"] = item["tool_call_id"]
    return message


def _part_to_chat(part: Any, where: str) -> Item:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in ("input_text", "output_text", "text"):
        return {"type": "text", "text": part.get("text") or ""}
    if kind == "input_image" and part.get("image_url"):
        return {"type": "image_url", "image_url": {"url": part["image_url"], "detail": part.get("detail") or "auto"}}
    if kind == "input_video" and part.get("video_url"):
        return {"type": "video_url", "video_url": {"url": part["video_url"]}}
    if kind in ("image_url", "video_url", "input_audio"):
        return dict(part)  # a chat part already
    raise row_error(f"{where}: a part of type `{kind}` cannot be sent to a chat model")


def _output_text(output: Any, where: str) -> str:
    if not isinstance(output, list):
        return output if isinstance(output, str) else "" if output is None else write_json(output).decode()
    for index, part in enumerate(output):
        if not isinstance(part, dict) or part.get("type") not in ("input_text", "output_text", "text"):
            raise row_error(f"{where}.output[{index}]: a chat model takes a tool's output as text only")
    return "".join(str(part.get("text") or "") for part in output)


def _call_to_item(call: Mapping[str, Any]) -> Item:
    function = call.get("function") or {}
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        arguments = orjson.dumps(arguments or {}).decode()
    return items.function_call(str(function.get("name") or ""), arguments, call_id=str(call.get("id") or ""))


def item_to_call(item: Mapping[str, Any]) -> Item:
    function = {"name": item.get("name") or "", "arguments": item.get("arguments") or ""}
    return {"id": item.get("call_id") or item.get("id") or "", "type": "function", "function": function}


def _tools_to_chat(params: Mapping[str, Any]) -> dict[str, Any]:
    tools, choice = params.get("tools") or [], params.get("tool_choice")
    if not tools:
        if choice == "required" or isinstance(choice, dict):
            raise row_error("tool_choice: a call is required but no tools are offered")
        return {}
    wrapped = [_tool_to_chat(tool, f"tools[{index}]") for index, tool in enumerate(tools)]
    asked: dict[str, Any] = {"tools": wrapped}
    if isinstance(choice, dict) and choice.get("type") == "function" and "name" in choice:
        choice = {"type": "function", "function": {"name": choice["name"]}}
    if choice is not None:
        asked["tool_choice"] = choice
    if params.get("parallel_tool_calls") is not None:
        asked["parallel_tool_calls"] = params["parallel_tool_calls"]
    return asked


def _tool_to_chat(tool: Any, where: str) -> Item:
    if not isinstance(tool, dict) or tool.get("type", "function") != "function":
        kind = tool.get("type") if isinstance(tool, dict) else type(tool).__name__
        raise row_error(f"{where}: a tool of type `{kind}` cannot be sent to a chat model")
    return {"type": "function", "function": {key: tool[key] for key in tool if key not in ("type", "strict")}}


def _format_to_chat(shape: Mapping[str, Any]) -> dict[str, Any]:
    if shape.get("type") != "json_schema":
        return dict(shape)
    return {"type": "json_schema", "json_schema": {key: shape[key] for key in shape if key != "type"}}


def _usage_to_responses(usage: Any) -> dict[str, Any] | None:
    if not isinstance(usage, dict):
        return None
    prompt, completion = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    thought = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
    total = usage.get("total_tokens") or prompt + completion
    converted = items.text_usage(prompt, completion) | {"total_tokens": total}
    converted["input_tokens_details"]["cached_tokens"] = cached
    converted["output_tokens_details"]["reasoning_tokens"] = thought
    return converted


def refusals(output: Iterable[Any]) -> Iterable[str]:
    for item in output:
        content = item.get("content") if isinstance(item, dict) else None
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict) and part.get("type") == "refusal":
                yield str(part.get("refusal") or "")


def row_error(message: str) -> RolloutError:
    return RolloutError("row", message)
