"""What a save was, and what came of it, in one line. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from gym.errors import NotUp
from gym.plan import Change
from gym.runtime.file_watch import SavedFile

SHOWN: Final = 3
PLACE: Final = re.compile(r'^\s*File "([^"]+)", line (\d+)', re.MULTILINE)
PLACED: Final = re.compile(r"\S+\.py:\d+: ")
DONE: Final = {"create": "started", "replace": "replaced", "scale": "scaled", "remove": "removed", "keep": "kept"}
HOW: Final = {"saved": "saved", "new": "is new", "removed": "removed"}


def name_files(saved: Sequence[SavedFile], cwd: Path) -> str:
    """`tally/app.py saved, tally/words.py is new and 4 more`."""
    named = [f"{_short(one.path, cwd)} {HOW[one.how]}" for one in saved[:SHOWN]]
    more = f" and {len(saved) - SHOWN} more" if len(saved) > SHOWN else ""
    return ", ".join(named) + more


def describe_changes(changes: Iterable[Change], *, images: bool) -> str:
    """`tally replaced (configuration changed)`. What is installed takes long, so it is said."""
    changed = [_describe(one, images=images) for one in changes if one.action != "keep"]
    return "; ".join(changed) or "nothing changes for the servers"


def describe_reload(names: Sequence[str], *, built: bool) -> str:
    return f"{', '.join(names)} {'replaced, from a new image' if built else 'reloaded'}"


def describe_late(error: NotUp) -> str:
    """The last of its last words, and where they came from. A hint behind words with a place is left to the log."""
    lines = [line.strip() for line in error.log.splitlines() if line.strip()]
    if not lines:
        return error.what.splitlines()[0].rstrip(".")
    places = PLACE.findall(error.log)
    where = f" ({Path(places[-1][0]).name}, line {places[-1][1]})" if places else ""
    last = next((line for line in lines[-2:] if PLACED.match(line)), lines[-1])
    return f"{error.server} does not start: {last.rstrip('.')}{where}"


def _describe(change: Change, *, images: bool) -> str:
    why = f" ({change.why})" if change.why and change.action != "create" else ""
    built = "requirements" in change.why.split(" changed")[0].split(", ")
    installed = f", its requirements installed{' in a new image' if images else ''}" if built else ""
    return f"{change.service} {DONE[change.action]}{installed}{why}"


def _short(path: Path, cwd: Path) -> str:
    return str(path.relative_to(cwd)) if path.is_relative_to(cwd) else f"{path.parent.name}/{path.name}"
