"""What the tool reports, who called it, and where an answer says so."""

from dataclasses import dataclass, field
from typing import Any

from gym.wire import items


@dataclass
class Calls:
    """The cities that this session's tool was called with."""

    cities: list[str] = field(default_factory=list)


def report(city: str) -> str:
    return f"The weather in {city} is sunny and 72 F."


def answer_text(output: list[dict[str, Any]]) -> str:
    """Every assistant text, a line each."""
    return "\n".join(items.item_text(item, "\n") for item in output if items.is_message(item)).strip()
