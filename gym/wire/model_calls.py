"""A recorded model call as others read it: its dialect, the tokens in its reply, the record that rLLM's client reads.

Pure: `gym.server` records and collects the calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from gym.wire.anthropic import messages_to_responses
from gym.wire.chat import last_tokens, responses_to_chat, tokens_of
from gym.wire.completions import response_to_completion
from gym.wire.failures import RolloutError

DIALECTS: Final = {
    "/v1/responses": "responses",
    "/v1/chat/completions": "chat_completions",
    "/v1/messages": "messages",
}
FINISHES: Final = {"max_tokens": "length", "tool_use": "tool_calls", "refusal": "content_filter"}
TOKEN_ID: Final = "token_id:"  # vLLM's `return_tokens_as_token_ids`


class CallTokens(NamedTuple):
    """None where the model server did not give them."""

    prompt_token_ids: list[int] | None = None
    generation_token_ids: list[int] | None = None
    generation_log_probs: list[float] | None = None


def tokens_of_reply(reply: Any) -> CallTokens:
    """Of one call, in any dialect and in any of the forms in which chat servers give them."""
    if not isinstance(reply, dict):
        return CallTokens()
    if isinstance(reply.get("output"), list):
        return _named(last_tokens(reply["output"]))
    choices = reply.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return _tokens_of_choice(reply, choices[0])
    return _named(tokens_of(reply))


def rllm_record(session_id: str, call: Mapping[str, Any]) -> dict[str, Any]:
    """`TraceRecord` of rLLM's model gateway: the conversation in chat form, whatever the dialect was."""
    request, reply = _mapping(call.get("request")), _mapping(call.get("reply"))
    messages, completion = _as_chat(str(call.get("dialect")), request, reply)
    choice = _mapping(next(iter(completion.get("choices") or ()), None))
    usage = _mapping(completion.get("usage"))
    counts = {"prompt": usage.get("prompt_tokens"), "completion": usage.get("completion_tokens")}
    return {
        "trace_id": call.get("id"),
        "session_id": session_id,
        "model": str(reply.get("model") or request.get("model") or ""),
        "messages": messages,
        "prompt_token_ids": call.get("prompt_token_ids") or [],
        "response_message": _mapping(choice.get("message")),
        "completion_token_ids": call.get("generation_token_ids") or [],
        "logprobs": call.get("generation_log_probs"),
        "finish_reason": choice.get("finish_reason"),
        "latency_ms": float(call.get("seconds") or 0.0) * 1000,
        "token_counts": {name: count for name, count in counts.items() if isinstance(count, int)},
        "timestamp": call.get("started_at"),
        "metadata": {"dialect": call.get("dialect"), "status": call.get("status")},
        "raw_request": request,
        "raw_response": reply,
    }


def _named(found: Mapping[str, Any]) -> CallTokens:
    return CallTokens(*(found.get(name) for name in CallTokens._fields))


def _tokens_of_choice(reply: Mapping[str, Any], choice: Mapping[str, Any]) -> CallTokens:
    message = _mapping(choice.get("message"))
    if own := tokens_of(message):
        return _named(own)
    content = _mapping(choice.get("logprobs")).get("content")
    steps = [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    prompt = reply.get("prompt_token_ids") or choice.get("prompt_token_ids") or message.get("prompt_token_ids")
    ids = choice.get("token_ids") or _ids_of(steps)
    probabilities = [one.get("logprob") for one in steps] or None
    return CallTokens(prompt, ids, probabilities) if ids else CallTokens()  # type: ignore[arg-type]


def _ids_of(steps: list[dict[str, Any]]) -> list[int] | None:
    texts = [str(one.get("token", "")) for one in steps]
    if not texts or not all(text.startswith(TOKEN_ID) and text[len(TOKEN_ID) :].isdecimal() for text in texts):
        return None
    return [int(text[len(TOKEN_ID) :]) for text in texts]


def _as_chat(
    dialect: str, request: dict[str, Any], reply: dict[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Messages and completion. What cannot be converted, a refused request above all, is empty."""
    if dialect == "chat_completions":
        return list(request.get("messages") or ()), reply
    try:
        params = messages_to_responses(request) if dialect == "messages" else request
        messages = responses_to_chat(params).get("messages") or []
        completion = _message_completion(reply) if dialect == "messages" else response_to_completion(reply, params)
    except RolloutError:
        return [], {}
    return messages, completion


def _message_completion(reply: Mapping[str, Any]) -> dict[str, Any]:
    """An anthropic message as a completion."""
    said = messages_to_responses({"messages": [{"role": "assistant", "content": reply.get("content") or ""}]})
    message = next(iter(responses_to_chat(said).get("messages") or ()), None)
    usage = _mapping(reply.get("usage"))
    counts = {"prompt_tokens": usage.get("input_tokens"), "completion_tokens": usage.get("output_tokens")}
    finish = FINISHES.get(str(reply.get("stop_reason")), "stop")
    return {"choices": [{"message": message, "finish_reason": finish}] if message else [], "usage": counts}


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
