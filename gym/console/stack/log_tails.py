"""The ends of the log files of a stack's processes, searched. Files of one folder alone, by names that were listed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from gym.console.pages.shell import NotThere

TAIL_BYTES: Final = 512 * 1024
MAX_LINES: Final = 1000
OWN: Final = ("console", "router", "supervisor")  # the stack's own come last
SUFFIX: Final = ".log"
COLOURS: Final = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class LogTails:
    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def names(self) -> list[str]:
        """Of the processes that wrote one."""
        if self._folder is None:
            return []
        try:
            with os.scandir(self._folder) as listed:
                files = [one.name for one in listed if one.is_file(follow_symlinks=False)]
        except OSError:
            return []
        names = sorted(name.removesuffix(SUFFIX) for name in files if name.endswith(SUFFIX))
        return sorted(names, key=OWN.__contains__)

    def read(self, name: str, text: str = "", lines: int = 200) -> dict[str, Any]:
        """The last lines that have `text` in them, whatever its case."""
        if self._folder is None or name not in self.names():
            raise NotThere(f"no process of this stack has a log called {name[:100]!r}")
        raw, size = _tail(self._folder / f"{name}{SUFFIX}")
        found = [one for one in _lines(raw) if text.lower() in one.lower()]
        shown = found[-min(lines, MAX_LINES) :]
        return {"name": name, "lines": shown, "matches": len(found), "searched": len(raw), "bytes": size}


def _tail(path: Path) -> tuple[bytes, int]:
    """A line that begins before what is read is left out."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = max(0, size - TAIL_BYTES)
        file.seek(start)
        raw = file.read(TAIL_BYTES)
    return (raw.partition(b"\n")[2] if start else raw), size


def _lines(raw: bytes) -> Iterator[str]:
    for line in raw.decode("utf-8", "replace").split("\n"):
        plain = CONTROLS.sub("", COLOURS.sub("", line)).rstrip()
        if plain:
            yield plain
