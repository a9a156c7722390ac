"""Examples of a trainer as JSON lines that `load_dataset("json")` reads, however large and mixed they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from gym.wire.deep_values import write_cut

_HELD = 8 << 20


def write_examples(examples: Iterator[dict[str, Any]], stream: BinaryIO) -> int:
    """How many were written; 8 MB of them are held before the first is.

    `load_dataset` decides by the first 10 MB whether messages are JSON of any shape, which they are as soon as two of
    them differ in their keys; a message with other keys that comes later is an error. So a file that is longer has one
    message that differs from the start.
    """
    first = next(examples, None)
    if first is None:
        return 0
    lines = [_line(first)]
    size = len(lines[0])
    for example in examples:
        lines.append(_line(example))
        size += len(lines[-1])
        if size > _HELD:
            lines[0] = _line(_mark(first))
            break
    stream.writelines(lines)
    written = len(lines)
    for example in examples:
        stream.write(_line(example))
        written += 1
    return written


def _line(example: dict[str, Any]) -> bytes:
    return write_cut(example) + b"\n"


def _mark(example: dict[str, Any]) -> dict[str, Any]:
    """With a key in the first message of each list that says nothing: no chat template looks at a null id."""
    return {name: _mark_first(value) if isinstance(value, list) else value for name, value in example.items()}


def _mark_first(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"tool_call_id": None, **message} for message in messages[:1]] + messages[1:]
