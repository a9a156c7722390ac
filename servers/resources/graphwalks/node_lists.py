"""The node list on an answer's last line, and how well it agrees with another one. Linear in the text."""

from __future__ import annotations

import re

from gym.server.slots import kept, last_line

_OPENING = re.compile(r"Final Answer:\s*\[")
_WHOLE = re.compile(r"\[([^\[\]]*)\][\s.*_`]*")
_EDGE = re.compile(r"^\s*(\S+)\s*->\s*(\S+)\s*$")
_QUOTES = "\"'`"


def read_nodes(text: str) -> list[str] | None:
    """`Final Answer: [a, b]` on the last line that is not blank: its nodes; None without that form."""
    line = text.strip().rpartition("\n")[2]
    closing = line.rfind("]")
    opening = _OPENING.search(line, 0, max(closing, 0))
    if opening is None:
        return None
    return [name for part in line[opening.end() : closing].split(",") if (name := part.strip())]


def read_nodes_strictly(text: str) -> list[str] | None:
    """Of the last `Final Answer:` line, in whatever Markdown and with whatever behind it, unless that takes it back."""
    found = _WHOLE.fullmatch(kept(text, last_line(text)) or "")
    return unquote([name for part in found.group(1).split(",") if (name := part.strip())]) if found else None


def nodes_of_graph(prompt: str) -> set[str]:
    """Every node of its lines `a -> b`."""
    edges = (_EDGE.match(line) for line in prompt.splitlines())
    return {node for edge in edges if edge for node in edge.groups()}


def above_all_nodes(f1: float, expected: set[str], everywhere: set[str]) -> float:
    """An F1 less what naming every node of the graph would earn, so that this earns nothing and the right set 1."""
    known = f1_score(everywhere, expected) if expected else 0.0
    return f1 if known >= 1.0 else max(0.0, (f1 - known) / (1.0 - known))


def unquote(nodes: list[str]) -> list[str]:
    return [node.strip(_QUOTES) for node in nodes]


def f1_score(predicted: set[str], expected: set[str]) -> float:
    """Two empty sets agree; an empty one and another do not."""
    if not predicted and not expected:
        return 1.0
    common = len(predicted & expected)
    return 2 * common / (len(predicted) + len(expected))
