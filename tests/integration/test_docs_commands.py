"""The commands of README and docs, typed as they stand there: a page's blocks one after another in one fresh folder.

Stacks run as processes, and on a port of ours.
"""

from __future__ import annotations

import random
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import environment
from tests.support.doc_blocks import PAGES, ROOT, CommandBlock, command_blocks

BLOCKS = {page: [one for one in command_blocks(page) if one.runs] for page in PAGES}
SECONDS = 570.0
# What a person's words become: a stack of processes, and a page for people that ends once it is there.
WORDS = """
set -euo pipefail
gym() {
  case "$1" in
    up) shift; command gym up --runtime local --port @PORT@ "$@" ;;
    view) view "$@" ;;
    *) command gym "$@" ;;
  esac
}
view() {
  case " $* " in *" -o "*) command gym "$@"; return ;; esac
  set -m
  command gym "$@" > view.txt 2>&1 &
  while ! grep -q "http://" view.txt; do kill -0 $! || { cat view.txt; return 1; }; sleep 0.1; done
  kill -INT -- -$!
  wait $! || test $? = 130
  set +m
}
"""


class Page:
    """A folder, and a shell in it for the blocks of a page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        (folder / ".venv").symlink_to(ROOT / ".venv")
        self.env = environment({"PATH": f"{ROOT / '.venv' / 'bin'}:/usr/local/bin:/usr/bin:/bin"})

    def type(self, text: str) -> subprocess.CompletedProcess[str]:
        """Everything in one shell, since a block may set what a later one reads."""
        script = (WORDS + text).replace("@PORT@", str(self.port)).replace(":11000", f":{self.port}")
        return subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Page]:
    page = Page(tmp_path)
    yield page
    page.type("command gym down")


def free_port() -> int:
    """Below those that the kernel gives away by itself."""
    while True:
        port = random.randint(12_000, 30_000)
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)):
                return port


def cheap(page: Path) -> list[CommandBlock]:
    return [one for one in BLOCKS[page] if one.mark == "run"]


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def run(folder: Page, blocks: list[CommandBlock]) -> None:
    done = folder.type("\n".join(f"echo '# {one.page}:{one.line}'\n{one.text}" for one in blocks))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", [one for one in PAGES if cheap(one)], ids=page_id)
def test_the_commands_of_a_page_run_as_they_are_typed(page: Path, folder: Page) -> None:
    run(folder, cheap(page))


@pytest.mark.long
@pytest.mark.parametrize("page", [one for one in PAGES if len(cheap(one)) < len(BLOCKS[one])], ids=page_id)
def test_the_costly_commands_of_a_page_run_too(page: Path, folder: Page) -> None:
    run(folder, BLOCKS[page])
