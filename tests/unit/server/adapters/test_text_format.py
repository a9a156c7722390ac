"""Which part of a reply is the action."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gym.server.adapters.text_format import TextFormat


@pytest.mark.parametrize(
    ("given", "text", "found"),
    [
        ({}, "  go left \n", "go left"),
        ({"take": "boxed"}, r"so \boxed{1}, no: \boxed{2 + {3}}", "2 + {3}"),
        ({"take": "boxed"}, "nothing", ""),
        ({"take": "tag"}, "<action>up</action> or <action> down </action>", "down"),
        ({"take": "tag", "tag": "move"}, "<action>up</action>", ""),
        ({"take": "last_line"}, "I think\n\nleft\n \n", "left"),
        ({"take": "last_line"}, "", ""),
        ({"take": "code"}, "```python\nx = 1\n```\n```\ny\nz\n```", "y\nz"),
        ({"take": "pattern", "pattern": r"Move: (\w+)"}, "Move: up\nMove: down", "down"),
        ({"take": "pattern", "pattern": r"\d+"}, "3 or 4", "4"),
        ({"take": "pattern", "pattern": r"(x)|(y)"}, "y", ""),
        ({"words": {"left": "0"}}, "Left", "0"),
        ({"words": {"left": "0"}}, "2", "2"),
    ],
)
def test_the_part_is_found(given: dict[str, Any], text: str, found: str) -> None:
    assert TextFormat(**given).find(text) == found


@pytest.mark.parametrize("given", [{"take": "pattern"}, {"pattern": "("}, {"take": "anything"}, {"tags": "x"}])
def test_a_format_that_means_nothing_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        TextFormat(**given)


def test_what_to_write_is_said_in_a_sentence() -> None:
    assert TextFormat(take="tag", tag="move").instruction == "Write it between <move> and </move>."
    assert TextFormat(take="boxed").instruction == r"Write it inside \boxed{}."
    assert TextFormat(take="pattern", pattern="a{2}").instruction == "Write it so that it matches a{2}."
