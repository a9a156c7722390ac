"""A group as the `ScoredData` of Atropos. A group that it cannot hold is not posted: `NotPosted` says why."""

from __future__ import annotations

from typing import Any

from gym.trainers.groups import RolloutGroup
from gym.trainers.sequences import TokenSequence, read_sequences
from gym.wire.chat import input_to_messages
from gym.wire.failures import RolloutError
from gym.wire.items import input_items

MASKED, NO_LOG_PROB = -100, 1.0  # as Atropos marks what was not generated


class NotPosted(Exception):
    """A group that is left out, and the reason."""


def group_to_data(group: RolloutGroup, env_id: int, *, max_tokens: int = 0, messages: bool = False) -> dict[str, Any]:
    """`max_tokens` and longer is too long; 0 and below: there is no limit."""
    if not group.complete:
        raise NotPosted("incomplete")
    results = [one.result or {} for one in group.rollouts]
    sequences = [_read(result) for result in results]
    tokens = [one.prompt_ids + one.completion_ids for one in sequences]
    if 0 < max_tokens <= max(map(len, tokens)):
        raise NotPosted("too long")
    data = {
        "tokens": tokens,
        "masks": [_fill(one, one.completion_ids, MASKED) for one in sequences],
        "inference_logprobs": [_fill(one, one.log_probs, NO_LOG_PROB) for one in sequences],
        "scores": list(group.rewards),
        "env_id": env_id,
    }
    return data | ({"messages": [_messages(one) for one in results]} if messages else {})


def _read(result: dict[str, Any]) -> TokenSequence:
    try:
        found = read_sequences(result)
    except RolloutError:
        raise NotPosted("token ids that do not line up") from None
    if len(found) != 1:
        raise NotPosted("a rollout of several sequences" if found else "a rollout without token ids")
    return found[0]


def _fill(sequence: TokenSequence, values: list[Any], nothing: float) -> list[Any]:
    generated = zip(values, sequence.mask, strict=True)
    return [nothing] * len(sequence.prompt_ids) + [value if mask else nothing for value, mask in generated]


def _messages(result: dict[str, Any]) -> list[dict[str, Any]]:
    asked = (result.get("responses_create_params") or {}).get("input")
    talk = [*input_items(asked), *result["response"]["output"]]
    return [{"content": None, **one} for one in input_to_messages(talk)]
