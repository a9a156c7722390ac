"""The text endpoint (`/v1/completions`): chat messages as one prompt, and its reply as a chat completion."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gym.errors import UserError
from gym.wire.failures import RolloutError, reading
from gym.wire.items import item_text

Body = dict[str, Any]
# Both endpoints call them the same; whatever else a chat request has is not sent.
SHARED = frozenset(
    [
        *("model", "max_tokens", "temperature", "top_p", "n", "seed", "stop", "frequency_penalty", "presence_penalty"),
        *("logit_bias", "response_format", "user", "top_k", "min_p", "repetition_penalty", "min_tokens", "ignore_eos"),
        *("stop_token_ids", "skip_special_tokens", "include_stop_str_in_output", "add_special_tokens", "priority"),
    ]
)


class Options(Protocol):
    model: str
    use_completions_api: bool
    render_chat_template: bool
    tokenizer: str | None


@dataclass(frozen=True)
class Template:
    """A chat template of another model than the server's own."""

    tokenizer: Any

    def render(self, asked: Mapping[str, Any]) -> str:
        kwargs = asked.get("chat_template_kwargs") or {}
        text: str = self.tokenizer.apply_chat_template(
            asked["messages"], tokenize=False, add_generation_prompt=True, tools=asked.get("tools"), **kwargs
        )
        return text


def load_template(options: Options) -> Template | None:
    """Only where one is named; the server's own is applied by the server."""
    if not (options.use_completions_api and options.render_chat_template and options.tokenizer):
        return None
    try:
        transformers = importlib.import_module("transformers")
    except ImportError:
        hint = "add `transformers` to requirements.txt, or leave `tokenizer` out: then the server applies its own"
        raise UserError("`tokenizer` names a chat template, and reading one needs transformers", hint) from None
    tokenizer = transformers.AutoTokenizer.from_pretrained(options.tokenizer)
    if not getattr(tokenizer, "chat_template", None):
        raise UserError(f"{options.tokenizer} has no chat template", "name a model whose tokenizer has one")
    return Template(tokenizer)


def messages_to_prompt(asked: Mapping[str, Any]) -> str:
    """The texts themselves: a question, or instructions and a question."""
    messages = asked["messages"]
    roles = [one.get("role") for one in messages]
    if asked.get("tools") or roles not in (["user"], ["system", "user"]):
        what = "a text endpoint takes one question, after one system message at most, and no tools"
        raise RolloutError("row", f"{what}; found {roles}. Set render_chat_template: true for more")
    for one in messages:
        parts = one.get("content")
        if isinstance(parts, list) and any(part.get("type") not in ("text", "input_text") for part in parts):
            raise RolloutError("row", "a text endpoint takes nothing but text")
    return "\n\n".join(item_text(one) for one in messages)


def completion_request(asked: Mapping[str, Any], prompt: str | list[int], *, tokens: bool) -> Body:
    body: Body = {key: value for key, value in asked.items() if key in SHARED}
    if "max_completion_tokens" in asked:
        body.setdefault("max_tokens", asked["max_completion_tokens"])
    if tokens or asked.get("logprobs"):
        body["logprobs"] = asked.get("top_logprobs") or 0
    if tokens:
        body |= {"return_token_ids": True, "return_tokens_as_token_ids": True}
    return {**body, "prompt": prompt}


@reading("model", "the reply")
def completion_to_chat(reply: Mapping[str, Any]) -> Body:
    """As the chat endpoint would say it, token ids and log-probs included."""
    choices = reply.get("choices")
    if not isinstance(choices, list) or not choices:
        raise RolloutError("model", f"the reply has no choices: {str(reply)[:300]}")
    given = choices[0]
    choice: Body = {
        "index": 0,
        "message": {"role": "assistant", "content": given.get("text") or ""},
        "finish_reason": given.get("finish_reason") or "stop",
    }
    logprobs = given.get("logprobs")
    if logprobs:
        pairs = zip(logprobs["tokens"], logprobs["token_logprobs"], strict=True)
        choice["logprobs"] = {"content": [{"token": token, "logprob": value} for token, value in pairs]}
    if given.get("token_ids") is not None:
        choice["token_ids"] = given["token_ids"]
    prompt = given.get("prompt_token_ids") or reply.get("prompt_token_ids")
    kept = {key: reply[key] for key in ("id", "created", "model", "usage") if key in reply}
    return {**kept, "object": "chat.completion", "choices": [choice]} | ({"prompt_token_ids": prompt} if prompt else {})
