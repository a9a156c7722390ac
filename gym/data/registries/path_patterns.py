"""Patterns of paths in a data set: `*` stays within a folder, `**/` is any number of folders, none included."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase


def match_paths(paths: Iterable[str], pattern: str) -> list[str]:
    """Those that fit, sorted. What is hidden (`.x`, `__x`) has to be asked for."""
    wanted = pattern.removeprefix("./")
    steps, hidden = wanted.split("/"), _count_hidden(wanted)
    return sorted(
        path for path in paths if path == wanted or (_fits(path.split("/"), steps) and _count_hidden(path) == hidden)
    )


def _fits(parts: Sequence[str], steps: Sequence[str]) -> bool:
    """All places that the steps so far may have come to are kept: no pattern takes long."""
    places = {0}
    for number, step in enumerate(steps, 1):
        if step == "**":
            places = set(range(min(places) + (number == len(steps)), len(parts) + 1))
        else:
            places = {place + 1 for place in places if place < len(parts) and fnmatchcase(parts[place], step)}
        if not places:
            return False
    return len(parts) in places


def _count_hidden(path: str) -> int:
    return sum(part.startswith((".", "__")) for part in path.split("/"))
