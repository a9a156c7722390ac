"""What a model thought before it answered: in a field of its own, in `<think>` tags, or in reasoning items."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gym.wire import items
from gym.wire.answers import cut_out


def split_thoughts(message: dict[str, Any]) -> tuple[list[str], str]:
    """The thoughts, in a field of their own (two spellings exist) or in `<think>` blocks, and the text."""
    text = items.item_text(message)
    aside = message.get("reasoning_content") or message.get("reasoning")
    thoughts = [aside] if isinstance(aside, str) else []
    if "<think>" in text:
        inside, text = cut_out(text, "<think>", "</think>")
        thoughts += inside
    return thoughts, text


def think_tags(thoughts: Iterable[str]) -> str:
    return "".join(f"<think>{thought}</think>" for thought in thoughts)


def items_thoughts(output: Iterable[Any]) -> list[str]:
    """The texts of reasoning items: their summary, or their content where a model server gives that."""
    parts = (
        part
        for item in output
        if isinstance(item, dict) and item.get("type") == "reasoning"
        for part in item.get("summary") or item.get("content") or ()
    )
    return [str(part.get("text") or "") for part in parts if isinstance(part, dict)]
