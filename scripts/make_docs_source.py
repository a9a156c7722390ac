"""Copies the pages of the site into a folder: README, docs, the READMEs of servers, and the files that they link to.

A link to a folder becomes one to its README, or its words alone where there is none. What leads nowhere stays as it is:
the strict build finds it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "AGENTS.md", "CHANGELOG.md", "compose/README.md", "docs", "servers/README.md")
SERVERS = "servers/*/*/README.md"
LINK = re.compile(r"(?<!!)\[(?P<words>[^\]\n]+)\]\((?P<target>[^)#\s:]+)(?P<anchor>#[^)\s]*)?\)")


def main(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *PAGES, SERVERS]
    for name in subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines():
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".md"):
            relink_here = partial(relink, page=ROOT / name, folder=folder)
            place.write_text(LINK.sub(relink_here, (ROOT / name).read_text("utf-8")), "utf-8")
        else:
            shutil.copy(ROOT / name, place)


def relink(found: re.Match[str], page: Path, folder: Path) -> str:
    target = (page.parent / found["target"]).resolve()
    if not target.is_relative_to(ROOT) or not target.exists():
        return found[0]
    if target.is_dir():
        if not (target / "README.md").is_file():
            return found["words"]
        return f"[{found['words']}]({found['target'].rstrip('/')}/README.md{found['anchor'] or ''})"
    if target.suffix != ".md":
        place = folder / target.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(target, place)
    return found[0]


main(Path(sys.argv[1]).absolute())
