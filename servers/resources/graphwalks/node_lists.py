"""The node list on an answer's last line, and how well it agrees with another one. Linear in the text."""

from __future__ import annotations

import re

_OPENING = re.compile(r"Final Answer:\s*\[")
_QUOTES = "\"'`"


def read_nodes(text: str) -> list[str] | None:
    """`Final Answer: [a, b]` on the last line that is not blank: its nodes; None without that form."""
    line = text.strip().rpartition("\n")[2]
    closing = line.rfind("]")
    opening = _OPENING.search(line, 0, max(closing, 0))
    if opening is None:
        return None
    return [name for part in line[opening.end() : closing].split(",") if (name := part.strip())]


def unquote(nodes: list[str]) -> list[str]:
    return [node.strip(_QUOTES) for node in nodes]


def f1_score(predicted: set[str], expected: set[str]) -> float:
    """Two empty sets agree; an empty one and another do not."""
    if not predicted and not expected:
        return 1.0
    common = len(predicted & expected)
    return 2 * common / (len(predicted) + len(expected))
