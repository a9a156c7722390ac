"""Check, measure, collate, fetch and make data sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gym.cli.data import download, ls, rm, sets, upload

# word -> function; each is `command` of a module in gym/cli/data, 40 lines at most
commands: Final[dict[str, Callable[..., Any]]] = {
    "sets": sets.command,
    "ls": ls.command,
    "download": download.command,
    "upload": upload.command,
    "rm": rm.command,
}
