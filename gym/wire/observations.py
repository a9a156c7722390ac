"""What an environment shows, as items of a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gym.wire import items
from gym.wire.deep_values import write_cut

Observation = str | dict[str, Any] | list[dict[str, Any]] | None


def observation_items(observation: Any) -> list[items.Item]:
    """An observation as the model reads it: text is a user message, items are taken as they are."""
    if observation is None:
        return []
    if isinstance(observation, list) and all(
        isinstance(one, dict) and ("role" in one or "type" in one) for one in observation
    ):
        return list(observation)
    if isinstance(observation, dict) and "role" in observation:
        return [observation]
    text = observation if isinstance(observation, str) else write_cut(observation).decode()
    return [{"type": "message", "role": "user", "content": text}]


def add_seeded(params: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with the environment's tools, which replace the row's of the same name, and its observation."""
    tools, observed = list(given.get("tools") or ()), observation_items(given.get("observation"))
    names = {one.get("name") for one in tools}
    asked = items.input_items(params.get("input"))
    if observed and asked[-len(observed) :] != observed:  # a rollout that is run again has it already
        asked = asked + observed
    own = [one for one in params.get("tools") or () if one.get("name") not in names]
    return {**params, "input": asked, **({"tools": own + tools} if tools else {})}
