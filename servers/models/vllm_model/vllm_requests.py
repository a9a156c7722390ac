"""What is put to vLLM's chat endpoint: a caller's request, and over and under it what the configuration says. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import orjson
from vllm_audio import add_audio

from gym.wire.answers import cut_out
from gym.wire.failures import RolloutError
from gym.wire.token_ids import GENERATION, LOG_PROBS, PROMPT

Body = dict[str, Any]
TOKEN_FIELDS = (PROMPT, GENERATION, LOG_PROBS, "routed_experts", "required_prefix_token_ids")
OWN_METADATA = ("chat_template_kwargs", "extra_body", "audio_data", "audio_path", "audio_paths")


class Options(Protocol):
    """The part of the configuration that requests depend on."""

    return_token_id_information: bool
    request_prompt_and_generation_token_ids: bool
    uses_reasoning_parser: bool
    uses_interleaved_reasoning: bool
    preserve_reasoning_in_assistant_content: bool
    replace_developer_role_with_system: bool
    chat_template_kwargs: dict[str, Any] | None
    sampling_overrides: dict[str, Any] | None
    extra_body: dict[str, Any] | None
    audio_root: str | None


def chat_request(body: Mapping[str, Any], options: Options, model: str, *, prefix: bool, tagged: bool) -> Body:
    """`prefix`: the tokens so far are sent along; `tagged`: thoughts go back as they came, in `<think>` tags."""
    extra = {**(options.extra_body or {}), **metadata_json(body, "extra_body")}
    asked: Body = {**extra, **body, "model": model}
    kwargs = {
        **(options.chat_template_kwargs or {}),
        **(body.get("chat_template_kwargs") or {}),
        **metadata_json(body, "chat_template_kwargs"),
    }
    if kwargs:
        asked["chat_template_kwargs"] = kwargs
    asked["messages"] = _messages(body["messages"], options, tagged)
    if tokens := _last_tokens(body["messages"]) if options.return_token_id_information else {}:
        _put_tokens(asked, tokens, body["messages"], prefix=prefix)
    add_audio(asked, options.audio_root)
    _drop_own_metadata(asked)
    if asked.get("top_logprobs") is None:
        asked.pop("top_logprobs", None)  # null means "no log-probs" there
    if options.return_token_id_information:
        asked |= {"logprobs": True, "top_logprobs": 0, "return_tokens_as_token_ids": True}
        asked["return_token_ids"] = options.request_prompt_and_generation_token_ids
    asked |= options.sampling_overrides or {}
    if options.return_token_id_information and asked.get("n") not in (None, 1):
        raise RolloutError("row", f"n: {asked['n']} answers were asked for, and token ids are those of one")
    return asked


def ends_in_thought(messages: list[Body]) -> bool:
    """The model has thought and said nothing: asked again it would think on."""
    last = messages[-1]
    return last.get("role") == "assistant" and not last.get("content") and not last.get("tool_calls")


def metadata_json(body: Mapping[str, Any], key: str) -> Body:
    """An object that a row carries as JSON text in its metadata, where only texts may stand."""
    text = (body.get("metadata") or {}).get(key)
    if not text:
        return {}
    try:
        value = orjson.loads(text) if isinstance(text, str) else text
    except orjson.JSONDecodeError as error:
        raise RolloutError("row", f"metadata.{key}: not JSON: {error}") from None
    if not isinstance(value, dict):
        raise RolloutError("row", f"metadata.{key}: the JSON of an object is needed, found {type(value).__name__}")
    return value


def _messages(given: list[Body], options: Options, tagged: bool) -> list[Body]:
    return [_message(one, options, tagged) for one in given]


def _message(given: Body, options: Options, tagged: bool) -> Body:
    role = given.get("role")
    if role == "developer" and options.replace_developer_role_with_system:
        return {**given, "role": "system"}
    if role != "assistant":
        return given
    message = {key: value for key, value in given.items() if key not in TOKEN_FIELDS}
    keep = options.preserve_reasoning_in_assistant_content or (tagged and options.uses_interleaved_reasoning)
    content = message.get("content")
    if not options.uses_reasoning_parser or keep or not isinstance(content, str) or "<think>" not in content:
        return message
    thoughts, said = cut_out(content, "<think>", "</think>")
    message["content"] = said or None
    if thoughts and options.uses_interleaved_reasoning:
        # Older servers read the first name, newer ones the second.
        message["reasoning_content"] = message["reasoning"] = "".join(thoughts)
    return message


def _last_tokens(messages: list[Body]) -> Body:
    """Of the last model call that has any: its prompt is all that was before."""
    for message in reversed(messages):
        if message.get("role") == "assistant" and message.get(GENERATION) and message.get(PROMPT):
            return message
    return {}


def _put_tokens(asked: Body, last: Body, given: list[Body], *, prefix: bool) -> None:
    """Servers that keep a prefix read it from the message, or from a field of its own."""
    at = next(index for index, one in enumerate(given) if one is last)
    asked["messages"][at] |= {key: last[key] for key in (PROMPT, GENERATION, LOG_PROBS) if key in last}
    if prefix:
        asked["required_prefix_token_ids"] = [*last[PROMPT], *last[GENERATION]]


def _drop_own_metadata(asked: Body) -> None:
    metadata = asked.get("metadata")
    if not isinstance(metadata, dict):
        return
    kept = {key: value for key, value in metadata.items() if key not in OWN_METADATA}
    if kept:
        asked["metadata"] = kept
    else:
        del asked["metadata"]
