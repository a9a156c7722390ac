"""Check, measure, collate, fetch and make data sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gym.cli.data import filter as filter_
from gym.cli.data import grow, overlap, render, sample, sets, split

# word -> function; each is `command` of a module in gym/cli/data, 40 lines at most
commands: Final[dict[str, Callable[..., Any]]] = {
    "filter": filter_.command,
    "grow": grow.command,
    "overlap": overlap.command,
    "render": render.command,
    "sample": sample.command,
    "sets": sets.command,
    "split": split.command,
}
