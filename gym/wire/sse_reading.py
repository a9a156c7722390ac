"""The event stream of a provider read as the reply that it adds up to. A stream that breaks off is a failure.

Chat chunks are merged; of a Responses stream the last event has the whole reply.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from gym.wire.failures import RolloutError, reading

DONE = b"[DONE]"
ENDINGS = ("response.completed", "response.incomplete", "response.failed")


@reading("model", "the event stream")
def events_to_reply(body: bytes) -> dict[str, Any]:
    """A chat completion or a Responses reply."""
    merged = _Completion()
    response: dict[str, Any] | None = None
    for event in _events(body):
        if event.get("error") or event.get("object") == "error":
            raise RolloutError("model", f"the provider sent an error in mid-stream: {_message_of(event)}")
        if event.get("type") in ENDINGS:
            response = event["response"]
        elif "choices" in event:
            merged.add(event)
    return response or merged.finish()


class _Completion:
    """One choice under construction: texts and lists grow, of every other field the last value counts."""

    def __init__(self) -> None:
        self._base: dict[str, Any] = {}
        self._choice: dict[str, Any] = {}
        self._message: dict[str, Any] = {}
        self._calls: dict[int, dict[str, Any]] = {}
        self._texts: dict[str, list[str]] = {}
        self._log_probs: list[Any] = []

    def add(self, chunk: Mapping[str, Any]) -> None:
        for key, value in chunk.items():
            if key != "choices" and value is not None:
                self._base[key] = value
        for choice in chunk["choices"]:
            if choice.get("index", 0) == 0:
                self._add_choice(choice)

    def finish(self) -> dict[str, Any]:
        if self._choice.get("finish_reason") is None:
            raise RolloutError("model", "the event stream ended before the reply was complete")
        message = {"role": "assistant", "content": None, **self._message}
        message |= {key: "".join(texts) for key, texts in self._texts.items()}
        if self._calls:
            message["tool_calls"] = [self._calls[number] for number in sorted(self._calls)]
        choice = {"index": 0, **self._choice, "message": message}
        if self._log_probs:
            choice["logprobs"] = {"content": self._log_probs}
        return {**self._base, "object": "chat.completion", "choices": [choice]}

    def _add_choice(self, choice: Mapping[str, Any]) -> None:
        for key, value in choice.items():
            if value is None or key in ("index", "delta"):
                continue
            if key == "logprobs":
                self._log_probs += value.get("content") or ()
            elif isinstance(value, list):
                self._choice.setdefault(key, []).extend(value)
            else:
                self._choice[key] = value
        self._add_delta(choice.get("delta") or {})

    def _add_delta(self, delta: Mapping[str, Any]) -> None:
        for key, value in delta.items():
            if value is None:
                continue
            if key == "tool_calls":
                for call in value:
                    self._add_call(call)
            elif key != "role" and isinstance(value, str):
                self._texts.setdefault(key, []).append(value)
            elif isinstance(value, list):
                self._message.setdefault(key, []).extend(value)
            else:
                self._message[key] = value

    def _add_call(self, piece: Mapping[str, Any]) -> None:
        number = piece.get("index", len(self._calls))
        call = self._calls.setdefault(number, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
        call["id"] = call["id"] or piece.get("id") or ""
        function = piece.get("function") or {}
        call["function"]["name"] += function.get("name") or ""
        call["function"]["arguments"] += function.get("arguments") or ""


def _events(body: bytes) -> Iterator[dict[str, Any]]:
    for line in body.splitlines():
        data = line[5:].strip() if line.startswith(b"data:") else b""
        if data and data != DONE:
            event = orjson.loads(data)
            if isinstance(event, dict):
                yield event


def _message_of(event: Mapping[str, Any]) -> str:
    error = event.get("error")
    found = error if error else event
    return str(found.get("message") or found)[:1000] if isinstance(found, dict) else str(found)[:1000]
