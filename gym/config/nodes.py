"""A tree of plain values in which every value knows the file and line it was written on.

Nodes are never changed once made: a merge, a deletion or an override gives a new tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, Final

from gym.errors import Problem

Path = tuple[str | int, ...]

MISSING: Final = "???"
COMMAND_LINE: Final = "command line"
MAX_VALUES: Final = 200_000
MAX_DEPTH: Final = 100


class _Broken:
    """Stands where a value could not be made; its problem is reported already, and only once."""

    def __repr__(self) -> str:
        return "<broken>"


BROKEN: Final = _Broken()


@dataclass(frozen=True, slots=True)
class Node:
    """`value` is a dict of nodes by text key, a list of nodes, or a scalar."""

    value: Any
    file: str = ""
    line: int = 0

    def child(self, key: str | int) -> Node | None:
        """The entry or element of that name; a digit string finds an element too."""
        if isinstance(self.value, dict):
            found = self.value.get(str(key))
            return found if isinstance(found, Node) else None
        if isinstance(self.value, list):
            index = int(key) if str(key).lstrip("-").isdecimal() and len(str(key)) < 10 else len(self.value)
            return self.value[index] if -len(self.value) <= index < len(self.value) else None
        return None

    @property
    def known(self) -> bool:
        """False for a missing value and for one whose problem is reported already."""
        return self.value is not BROKEN and self.value != MISSING


@dataclass
class Findings:
    """What a loader wants to say at its end: problems stop it, notices do not."""

    problems: list[Problem] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def add(self, node: Node | None, key: Path | str, what: str, hint: str = "") -> None:
        shown = key if isinstance(key, str) else dotted(key)
        problem = Problem(what, node.file if node else "", node.line if node else 0, shown, hint)
        if problem not in self.problems:
            self.problems.append(problem)

    def notice(self, text: str) -> None:
        if text not in self.notices:
            self.notices.append(text)


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def empty_tree() -> Node:
    return Node({})


def dotted(path: Iterable[str | int]) -> str:
    return ".".join(str(part) for part in path)


def children(node: Node) -> Iterator[tuple[str | int, Node]]:
    if isinstance(node.value, dict):
        yield from node.value.items()
    elif isinstance(node.value, list):
        yield from enumerate(node.value)


def walk(node: Node, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Every node with its path, parents first."""
    yield path, node
    for key, child in children(node):
        yield from walk(child, (*path, key))


def find(node: Node, path: Path) -> Node | None:
    for part in path:
        found = node.child(part)
        if found is None:
            return None
        node = found
    return node


def plain(node: Node) -> Any:
    """The value without its locations."""
    if isinstance(node.value, dict):
        return {key: plain(child) for key, child in node.value.items()}
    if isinstance(node.value, list):
        return [plain(child) for child in node.value]
    return node.value


def located(value: Any, file: str, line: int = 0) -> Node:
    """The opposite of `plain`: every value of it gets one place."""
    if isinstance(value, dict):
        return Node({str(key): located(child, file, line) for key, child in value.items()}, file, line)
    if isinstance(value, list):
        return Node([located(child, file, line) for child in value], file, line)
    return Node(value, file, line)


def merge(low: Node, high: Node) -> Node:
    """`high` over `low`: mappings are joined, anything else is replaced; `???` replaces nothing."""
    if high.value == MISSING:
        return low
    if not isinstance(high.value, dict):
        return high
    if _is_reference(low.value):
        return _extend_reference(low, high)
    if not isinstance(low.value, dict):
        return high
    joined = dict(low.value)
    for key, child in high.value.items():
        joined[key] = merge(joined[key], child) if key in joined else child
    return Node(joined, low.file, low.line)


def merge_all(trees: Iterable[Node]) -> Node:
    merged = empty_tree()
    for tree in trees:
        merged = merge(merged, tree)
    return merged


def set_at(node: Node, path: Path, value: Node) -> Node:
    """A tree with `value` merged in at `path`; mappings on the way are made. IndexError for a list too short."""
    if not path:
        return merge(node, value)
    head, rest = path[0], path[1:]
    below = node.child(head)
    if isinstance(node.value, list):
        if below is None:
            raise IndexError(head)
        items = list(node.value)
        items[int(head)] = set_at(below, rest, value)
        return replace(node, value=items)
    if isinstance(node.value, dict):
        entry = nest(rest, value) if below is None else set_at(below, rest, value)
        return replace(node, value={**node.value, str(head): entry})
    return merge(node, nest(path, value))


def nest(path: Path, value: Node) -> Node:
    for part in reversed(path):
        value = Node({str(part): value}, value.file, value.line)
    return value


def delete_at(node: Node, path: Path) -> Node:
    """A tree without what is at `path`; the same tree when nothing is."""
    if not path or node.child(path[0]) is None:
        return node
    head, rest = path[0], path[1:]
    if isinstance(node.value, list):
        items = list(node.value)
        if rest:
            items[int(head)] = delete_at(items[int(head)], rest)
        else:
            del items[int(head)]
        return replace(node, value=items)
    entries = dict(node.value)
    if rest:
        entries[str(head)] = delete_at(entries[str(head)], rest)
    else:
        del entries[str(head)]
    return replace(node, value=entries)


def count_values(node: Node, _seen: dict[int, int] | None = None) -> int:
    """How many values a tree has when shared branches are written out; linear in what is really there."""
    seen = {} if _seen is None else _seen
    known = seen.get(id(node))
    if known is None:
        known = seen[id(node)] = 1 + sum(count_values(child, seen) for _, child in children(node))
    return known


def nearest(name: str, names: Iterable[str], count: int = 3) -> list[str]:
    """The names a person may have meant, best first."""
    pool = list(dict.fromkeys(names))[:2000]
    low = {one.lower(): one for one in pool}
    found = get_close_matches(name.lower()[:100], list(low), n=count, cutoff=0.65)
    extra = [one for one in pool if len(name) > 2 and (one.startswith(name) or name.startswith(f"{one}_"))]
    return list(dict.fromkeys([*(low[key] for key in found), *extra]))[:count]


def did_you_mean(name: str, names: Iterable[str]) -> str:
    close = nearest(name, names)
    return f"Did you mean {join_or([f'`{one}`' for one in close])}?" if close else ""


def join_or(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}" if words else ""


def describe(value: Any) -> str:
    """What was found, in a person's words; values are shown by the caller, who knows if they are secret."""
    if value is None:
        return "nothing"
    kinds = {bool: "a yes/no value", int: "a number", float: "a number", str: "text", dict: "a mapping", list: "a list"}
    return kinds.get(type(value), type(value).__name__)


def _is_reference(value: Any) -> bool:
    return isinstance(value, str) and value.startswith("${") and value.endswith("}") and value.count("${") == 1


def _extend_reference(low: Node, high: Node) -> Node:
    """More keys for what another place defines: a copy of that place with these keys over it."""
    inner = low.value[2:-1].strip()
    directive, _, target = inner.partition(":")
    if target and directive.strip() in ("inherit_from", "copy"):
        key = f"_{directive.strip()}"
    elif ":" in inner or inner.startswith("."):
        return high
    else:
        key, target = "_copy", inner
    return Node({key: Node(target.strip(), low.file, low.line), **high.value}, low.file, low.line)
