"""Reads the boxed answer of a rollout and compares it with the expected one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from gym.server.slots import kept, last_box, unwrapped
from gym.wire.answers import last_boxed

BOX = "\\boxed{"


def find_answer(output: Iterable[dict[str, Any]], *, strict: bool) -> str | None:
    """Of the last message that holds a box; else of the last output of a tool that does."""
    items = [item for item in output if isinstance(item, dict)][::-1]
    texts = [message_text(item) for item in items if item.get("type") == "message" and item.get("role") == "assistant"]
    texts += [tool_text(item.get("output")) for item in items if item.get("type") == "function_call_output"]
    if strict:
        return next((kept(text, box) for text in texts if (box := last_box(text))), None)
    return next((answer for text in texts if (answer := read_box(text))), None)


def message_text(item: dict[str, Any]) -> str:
    content = item.get("content")
    if isinstance(content, str):
        return content
    parts = [part for part in content or () if isinstance(part, dict) and part.get("type") == "output_text"]
    return "".join(part["text"] for part in parts if isinstance(part.get("text"), str))


def tool_text(output: Any) -> str:
    text = output if isinstance(output, str) else ""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return text
    found = parsed.get("stdout", "") if isinstance(parsed, dict) else text
    return found if isinstance(found, str) else ""


def read_box(text: str) -> str | None:
    """The last box. One that never closes hides those before it."""
    begin = text.rfind(BOX)
    if begin < 0:
        return None
    return (last_boxed(text[begin:]) or "").strip() or None


def same_answer(given: str | None, expected: str, *, strict: bool) -> bool:
    """Strictly: or what is left of it without Markdown, LaTeX text and a closing dot."""
    if given is None:
        return False
    return _same(given, expected) or (strict and _same(unwrapped(given), expected))


def _same(given: str, expected: str) -> bool:
    one, other = plain(given), plain(expected)
    if one == other:
        return True
    try:
        found, wanted = float(one), float(other)
    except ValueError:
        return False
    return abs(found - wanted) < 1e-6 * max(1.0, abs(wanted))


def plain(text: str) -> str:
    """Without what delimits mathematics, and with one blank where there are several."""
    text = text.strip()
    for begin, end in (("\\(", "\\)"), ("$", "$"), ("\\text{", "}")):
        if text.startswith(begin) and text.endswith(end) and len(text) >= len(begin) + len(end):
            text = text[len(begin) : -len(end)].strip()
    return " ".join(text.split())
