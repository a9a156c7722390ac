"""The tokens of a rollout as a policy gradient wants them: what was generated, and what the environment put between."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gym.errors import UserError
from gym.wire.token_ids import GENERATION, Tokens, read_fields


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """`mask` is 1 where the policy generated a token and 0, with log-prob 0.0, where tools or templates put it."""

    prompt_ids: list[int]
    completion_ids: list[int]
    log_probs: list[float]
    mask: list[int]


def read_sequence(rollout: Mapping[str, Any]) -> TokenSequence:
    """Of a rollout whose model calls continue each other; one with a break, or without token ids, is an error."""
    found = read_sequences(rollout)
    if len(found) == 1:
        return found[0]
    if not found:
        hint = "serve the policy by vllm_model with return_token_id_information: true, or by a model that says ids"
        raise UserError("the rollout holds no token ids", hint)
    raise UserError(
        f"the rollout is {len(found)} sequences: a prompt does not begin with what the model had said before",
        "read_sequences gives each of them; `_gym.tokens_break` of the row says where",
    )


def read_sequences(rollout: Mapping[str, Any]) -> list[TokenSequence]:
    """A new one begins wherever a prompt does not continue the tokens before it. Fields that do not line up raise."""
    found: list[TokenSequence] = []
    for call in _read_calls(rollout):
        assert call.prompt is not None
        if not (found and _continue(found[-1], call.prompt)):
            found.append(TokenSequence(call.prompt, [], [], []))
        _add(found[-1], call.generation, call.log_probs, mask=1)
    return found


def _read_calls(rollout: Mapping[str, Any]) -> Iterator[Tokens]:
    for item in (rollout.get("response") or {}).get("output") or ():
        if isinstance(item, dict) and item.get(GENERATION):
            yield read_fields(item)


def _continue(sequence: TokenSequence, prompt: list[int]) -> bool:
    """What the environment said since then is added where the prompt does continue the sequence."""
    first = len(sequence.prompt_ids)
    known = first + len(sequence.completion_ids)
    if prompt[:first] != sequence.prompt_ids or prompt[first:known] != sequence.completion_ids:
        return False
    between = prompt[known:]
    _add(sequence, between, [0.0] * len(between), mask=0)
    return True


def _add(sequence: TokenSequence, ids: list[int], log_probs: list[float], *, mask: int) -> None:
    sequence.completion_ids.extend(ids)
    sequence.log_probs.extend(log_probs)
    sequence.mask.extend([mask] * len(ids))
