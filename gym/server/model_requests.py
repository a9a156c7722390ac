"""What an agent asks a model: never nothing and never for a stream. And the reply, which has to be a response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from gym.wire.failures import RolloutError
from gym.wire.items import are_objects
from gym.wire.rows import DEFAULTS, PARAMS
from gym.wire.unread import read_with_items

SAYS = ("input", "instructions", "prompt")  # what a model can be asked by
STREAMING = ("stream", "stream_options")


def need_input(params: Mapping[str, Any]) -> None:
    """An answer to nothing would be rewarded like any other."""
    if any(params.get(name) for name in SAYS):
        return
    what = f"{PARAMS}.input is empty, and nothing else in the row says what to ask the model"
    hint = f"put the prompt there; where the client sends an input of its own, as miles does, into {DEFAULTS}.input"
    raise RolloutError("row", f"{what}: {hint}")


def without_streaming(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """An agent needs whole replies, even where its caller asked for a stream."""
    if not any(name in params for name in STREAMING):
        return params
    return {name: value for name, value in params.items() if name not in STREAMING}


def read_response(body: bytes, instance: str) -> dict[str, Any]:
    """The reply of the model server `instance`; its failure where that is not a response."""
    try:
        parsed = read_with_items(body, "model")
    except orjson.JSONDecodeError:
        parsed = None
    if not isinstance(parsed, dict) or not are_objects(parsed.get("output")):
        text = body[:200].decode("utf-8", "replace")
        raise RolloutError("model", f"answered with something that is not a response: {text}", server=instance)
    return parsed
