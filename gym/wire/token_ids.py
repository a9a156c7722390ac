"""Token ids and log-probs of a chat completion, in each of the three forms in which servers give them.

Fields of the message; `prompt_token_ids` with `choices[].token_ids`; `logprobs.content[].token` = `token_id:N`. What is
partial, misaligned or not a number is a failure of kind `model`: it never becomes a row without tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from gym.wire.chat import first_choice
from gym.wire.failures import RolloutError, reading

PREFIX = "token_id:"
PROMPT, GENERATION, LOG_PROBS = TRIPLE = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")
# Each of them makes a server return token ids; a request with one of them asks for ids.
ASKING = ("return_token_ids", "return_tokens_as_token_ids")


class Tokens(NamedTuple):
    """Of one model call. `prompt` is None where only `POST /tokenize` can say it."""

    prompt: list[int] | None
    generation: list[int]
    log_probs: list[float]

    def to_fields(self) -> dict[str, Any]:
        return {PROMPT: self.prompt, GENERATION: self.generation, LOG_PROBS: self.log_probs}


def asks_for_tokens(body: Mapping[str, Any]) -> bool:
    return any(body.get(key) for key in ASKING)


def want_log_probs(body: dict[str, Any]) -> bool:
    """Token ids that were asked for come with log-probs. A caller without log-probs gets the ids where they are."""
    if not asks_for_tokens(body):
        return False
    body.setdefault("logprobs", True)
    return bool(body["logprobs"])


@reading("model", "the reply")
def read_tokens(completion: Mapping[str, Any]) -> Tokens:
    """Checked, from the first form that is there; a second one has to agree with it."""
    choice = first_choice(completion)
    message = choice["message"]
    native = _read_native(completion, choice)
    if any(message.get(key) for key in TRIPLE):
        return _agreeing(read_fields(message), native)
    spelled, log_probs = _read_logprobs(choice)
    if native is None:
        if spelled is None:
            raise _absent("it holds no token ids")
        return _checked(Tokens(None, spelled, log_probs))
    prompt, generation = native
    if spelled is not None and spelled != generation:
        raise _misaligned("choices[0].token_ids and the ids in logprobs.content are not the same")
    return _checked(Tokens(prompt, generation, log_probs))


def read_fields(item: Mapping[str, Any]) -> Tokens:
    """The triple of a message or an output item, checked; a part of it is as bad as none."""
    missing = [key for key in TRIPLE if item.get(key) is None]
    if missing:
        raise _absent(f"its message has token fields, and these are missing: {', '.join(missing)}")
    return _checked(Tokens(*(item[key] for key in TRIPLE)))


def need_tokens(output: Any) -> None:
    """Of a Responses reply: somewhere in it."""
    if not any(isinstance(item, dict) and item.get(GENERATION) for item in output or ()):
        raise _absent("a Responses endpoint gives none, and a chat endpoint does")


def check_ids(ids: Any, where: str) -> list[int]:
    """A list of token ids with at least one in it."""
    if not isinstance(ids, list):
        raise _misaligned(f"{where} is not a list")
    if not ids:
        raise _absent(f"{where} is empty", retryable=True)
    if set(map(type, ids)) != {int} or min(ids) < 0:
        raise _misaligned(f"{where} holds something that is not a token id")
    return ids


def check_prompt(ids: Any, usage: Any) -> list[int]:
    """What `/tokenize` made of the messages; the server counted the prompt of the generation in `usage`."""
    prompt = check_ids(ids, "tokens of /tokenize")
    counted = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    if isinstance(counted, int) and counted and counted != len(prompt):
        raise _misaligned(f"/tokenize makes {len(prompt)} tokens of the prompt, and the generation saw {counted}")
    return prompt


def put_tokens(completion: dict[str, Any], tokens: Tokens, *, native: bool) -> None:
    """The triple goes onto the message. `native`: the caller asked for the server's own forms and keeps them."""
    choice = completion["choices"][0]
    choice["message"] |= tokens.to_fields()
    if choice.get("routed_experts") is not None:
        choice["message"].setdefault("routed_experts", choice["routed_experts"])
    if not native:
        completion.pop(PROMPT, None)
        for key in ("token_ids", "logprobs", "routed_experts"):
            choice.pop(key, None)


def _read_native(completion: Mapping[str, Any], choice: Mapping[str, Any]) -> tuple[list[int], list[int]] | None:
    prompt, generation = completion.get(PROMPT), choice.get("token_ids")
    if prompt is None and generation is None:
        return None
    if prompt is None or generation is None:
        missing = "choices[0].token_ids" if generation is None else PROMPT
        raise _absent(f"it has half of the token ids; missing: {missing}")
    return prompt, generation


def _read_logprobs(choice: Mapping[str, Any]) -> tuple[list[int] | None, list[float]]:
    """The ids where tokens are spelled `token_id:N`, and the log-probs."""
    content = (choice.get("logprobs") or {}).get("content")
    if not content:
        raise _absent("it holds no log-probs of its tokens")
    log_probs = list(map(itemgetter("logprob"), content))
    # As one text, and read by orjson: five times as fast as one by one.
    names = ",".join(map(itemgetter("token"), content))
    if names.count(PREFIX) != len(content):
        return None, log_probs
    return orjson.loads(f"[{names.replace(PREFIX, '')}]"), log_probs


def _agreeing(tokens: Tokens, native: tuple[list[int], list[int]] | None) -> Tokens:
    if native is not None and native != (tokens.prompt, tokens.generation):
        raise _misaligned("the token ids of its message are not those of the reply")
    return tokens


def _checked(tokens: Tokens) -> Tokens:
    if tokens.prompt is not None:
        check_ids(tokens.prompt, PROMPT)
    check_ids(tokens.generation, GENERATION)
    _check_log_probs(tokens.log_probs)
    if len(tokens.generation) != len(tokens.log_probs):
        counts = f"{len(tokens.generation)} token ids and {len(tokens.log_probs)} log-probs"
        raise _misaligned(f"the generation has {counts}")
    return tokens


def _check_log_probs(values: Sequence[Any]) -> None:
    """NaN and infinity are not JSON: a reply with them was refused when it was read."""
    if not isinstance(values, list) or not set(map(type, values)) <= {float, int}:
        raise RolloutError("model", "token ids were asked for, and a log-prob of the reply is not a number")


def _absent(what: str, *, retryable: bool = False) -> RolloutError:
    hint = "vLLM gives them from 0.10 on; a model without them needs return_token_id_information: false"
    message = f"token ids were asked for, and the reply has none: {what}. {hint}"
    return RolloutError("model", message, retryable=retryable)


def _misaligned(what: str) -> RolloutError:
    return RolloutError("model", f"token ids were asked for, and those of the reply do not line up: {what}")
