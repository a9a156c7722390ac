r"""Which option stands in the box? Compatible unless `strict`: the first box of the last item, character by character.

Compatible is how older rewards were made: out of the printed form of the message, where `\boxed{\text{A}}` is no A.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gym.wire import items

Item = Mapping[str, Any]
_OPEN = "\\boxed{"
_BRACES = re.compile(r"\\boxed\{|[{}]")
_WRAPPER = re.compile(r"\\(?:text|mathrm|mathbf|textbf)\{(.*)\}", re.DOTALL)


def parse_option(output: Sequence[Item], *, strict: bool) -> tuple[str | None, str]:
    """The option, and why there is none."""
    if not output:
        return None, "the response has no output"
    if strict:
        text = items.last_assistant_text(list(output))
        box = last_box(text)
        return (None, "the last answer has no box") if box is None else (peel(box), "")
    if output[-1].get("type") != "message" or output[-1].get("role") != "assistant":
        return None, "the last item is no assistant message"
    box = first_box(printed(output[-1].get("content")))
    return box, "" if box is not None else "the last message has no box"


def same_option(option: str | None, expected: str, *, strict: bool) -> bool:
    if option is None:
        return False
    return fold(option) == fold(expected) if strict else option == expected


def printed(content: Any) -> str:
    """The texts of a content list as Python prints them: a backslash is two, a line break is no line break."""
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


def last_box(text: str) -> str | None:
    """The content of the last box whose braces balance."""
    opened: list[int] = []  # where a box's content begins; -1 for a brace that opens none
    best = (-1, -1)
    for brace in _BRACES.finditer(text):
        if brace.group() != "}":
            opened.append(brace.end() if brace.group() == _OPEN else -1)
        elif opened and (begin := opened.pop()) > best[0]:
            best = (begin, brace.start())
    return text[slice(*best)] if best[0] >= 0 else None


def peel(text: str) -> str:
    for _ in range(8):
        wrapper = _WRAPPER.fullmatch(text.strip())
        if wrapper is None:
            break
        text = wrapper.group(1)
    return text.strip()


def fold(text: str) -> str:
    return " ".join(text.split()).rstrip(".").casefold()


def _printed_parts(content: Any) -> Iterator[str]:
    for part in content if isinstance(content, list) else ():
        for key in ("text", "refusal"):
            if isinstance(part, dict) and isinstance(part.get(key), str):
                yield repr(part[key])
