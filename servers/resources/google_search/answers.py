r"""Reads the option in the box. Compatible unless `strict`: the first box of the last item, character by character.

Compatible is how older rewards were made: out of the printed form of the message, where `\boxed{\text{A}}` is not an A.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gym.server.slots import kept, last_box, unwrapped
from gym.wire import items

Item = Mapping[str, Any]
_OPEN = "\\boxed{"


def parse_option(output: Sequence[Item], *, strict: bool) -> tuple[str | None, str]:
    """The option, and why there is none."""
    if not output:
        return None, "the response has no output"
    if strict:
        text = items.joined_text(list(output))
        box = kept(text, last_box(text))
        return (None, "the last answer has no box that counts") if box is None else (unwrapped(box), "")
    if output[-1].get("type") != "message" or output[-1].get("role") != "assistant":
        return None, "the last item is not an assistant message"
    box = first_box(printed(output[-1].get("content")))
    return box, "" if box is not None else "the last message has no box"


def same_option(option: str | None, expected: str, *, strict: bool) -> bool:
    if option is None:
        return False
    return fold(option) == fold(expected) if strict else option == expected


def printed(content: Any) -> str:
    """The texts of a content list as Python prints them: a backslash is two, a line break is not a line break."""
    return content if isinstance(content, str) else ", ".join(_printed_parts(content))


def first_box(text: str) -> str | None:
    r"""The first `\boxed{…}` up to the next brace, on one line. In linear time, whatever the text."""
    begin, end, newline = text.find(_OPEN), -1, -1
    while begin >= 0:
        inside = begin + len(_OPEN)
        end = text.find("}", inside) if end < inside else end
        if end < 0:
            return None
        if newline < inside:
            newline = text.find("\n", inside)
            newline = len(text) if newline < 0 else newline
        if end < newline:
            return text[inside:end]
        begin = text.find(_OPEN, begin + 1)
    return None


def fold(text: str) -> str:
    return " ".join(text.split()).rstrip(".").casefold()


def _printed_parts(content: Any) -> Iterator[str]:
    for part in content if isinstance(content, list) else ():
        for key in ("text", "refusal"):
            if isinstance(part, dict) and isinstance(part.get(key), str):
                yield repr(part[key])
