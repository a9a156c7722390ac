"""Every block of commands in README and docs is run by a test, or says why not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import doc_blocks
from tests.support.doc_blocks import PAGES, command_blocks


@pytest.mark.parametrize("page", PAGES, ids=lambda one: str(one.relative_to(doc_blocks.ROOT)))
def test_every_block_of_commands_is_run_or_says_why_not(page: Path) -> None:
    bare = [f"{one.page}:{one.line}" for one in command_blocks(page) if not one.is_marked]
    assert bare == [], "write <!-- run -->, <!-- run long --> or <!-- not run: WHY --> on the line before"


def test_marks_are_read_and_a_block_without_one_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doc_blocks, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    blocks = ("<!-- run -->", "bash", "ls"), ("", "bash", "ls"), ("<!-- not run: lazy -->", "sh", "ls")
    more = (
        ("", "", "gym up mcqa"),
        ("", "", "no command"),
        ("", "python", "1"),
        ("<!-- not run: needs a GPU -->", "sh", "ls"),
    )
    page.write_text("\n\n".join(f"{mark}\n```{kind}\n{text}\n```".strip() for mark, kind, text in (*blocks, *more)))
    found = list(command_blocks(page))
    assert [one.is_marked for one in found] == [True, False, False, False, True]
    assert [one.runs for one in found] == [True, False, False, False, False]
    assert found[0].text == "ls\n"
    assert page.read_text().splitlines()[found[1].line] == "ls"


@pytest.mark.parametrize("page", PAGES, ids=lambda one: str(one.relative_to(doc_blocks.ROOT)))
def test_a_reason_names_no_test_that_is_not_there(page: Path) -> None:
    named = [name for one in command_blocks(page) for name in re.findall(r"\b(?:tests|docs)/[\w/.-]+\w", one.mark)]
    assert [name for name in named if not (doc_blocks.ROOT / name).exists()] == []
