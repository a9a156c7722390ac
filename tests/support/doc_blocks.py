"""The command blocks of README and docs, each with the mark that stands in an HTML comment before it.

`<!-- run -->`: a test runs it, the blocks of a page one after another in one fresh folder. `<!-- run long -->`: with
`scripts/test --long` too. `<!-- not run: REASON -->`: no test does, and why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "compose" / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
_BLOCK = re.compile(r"(?:^[ ]*<!-- (?P<mark>[^\n]*) -->\n)?^[ ]*```(?P<kind>\w*)\n(?P<text>.*?)^[ ]*```$", re.M | re.S)
_COMMAND = re.compile(r"(?:\$ )?(?:gym|ng_\w+|scripts/\w+|pip install|docker|curl) ")


class CommandBlock(NamedTuple):
    page: str
    line: int
    mark: str
    text: str

    @property
    def runs(self) -> bool:
        return self.mark in ("run", "run long")

    @property
    def is_marked(self) -> bool:
        """Runnable, or with a reason why not that is more than a word."""
        return self.runs or re.fullmatch(r"not run: \S+ .*\S", self.mark) is not None


def command_blocks(page: Path) -> Iterator[CommandBlock]:
    """Those in a shell's language, and those in none that hold commands."""
    text = page.read_text("utf-8")
    for found in _BLOCK.finditer(text):
        lines = found["text"].splitlines()
        if found["kind"] in ("bash", "sh", "console") or (not found["kind"] and any(map(_COMMAND.match, lines))):
            line = text.count("\n", 0, found.start("text"))
            yield CommandBlock(str(page.relative_to(ROOT)), line, found["mark"] or "", found["text"])
