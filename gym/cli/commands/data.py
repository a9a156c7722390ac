"""Check, measure, collate, fetch and make data sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gym.cli.data import (
    card,
    download,
    from_library,
    grow,
    ls,
    overlap,
    prepare,
    render,
    rm,
    sample,
    sets,
    split,
    upload,
    validate,
)
from gym.cli.data import filter as filter_

# word -> function; each is `command` of a module in gym/cli/data, 40 lines at most
commands: Final[dict[str, Callable[..., Any]]] = {
    "prepare": prepare.command,
    "sets": sets.command,
    "validate": validate.command,
    "ls": ls.command,
    "download": download.command,
    "upload": upload.command,
    "rm": rm.command,
    "render": render.command,
    "split": split.command,
    "sample": sample.command,
    "card": card.command,
    "grow": grow.command,
    "from": from_library.command,
    "filter": filter_.command,
    "overlap": overlap.command,
}
