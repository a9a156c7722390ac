"""Writes the pages into a folder."""

from __future__ import annotations

import sys
from pathlib import Path

from reference_pages import commands, configuration, http

PAGES = {"configuration.md": configuration.page, "commands.md": commands.page, "http.md": http.page}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        half = folder / f".{name}.half"
        half.write_text(page(), "utf-8")
        half.replace(folder / name)


main(Path(sys.argv[1]))
