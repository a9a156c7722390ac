"""A command that writes JSON lines refuses a name that says another kind of file, before it reads anything."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gym.cli.commands import merge, profile, reverify
from gym.cli.data import from_library, grow, overlap, prepare, render, split
from gym.errors import UserError

FILES: dict[str, Callable[[Path], int]] = {
    "from": lambda path: from_library.command("t.csv", output=path),
    "grow": lambda path: grow.command("graphwalks", output=path),
    "overlap": lambda path: overlap.command("a.jsonl", ["b.jsonl"], drop=True, output=path),
    "profile": lambda path: profile.command(Path("x.jsonl"), keep_between=(0.1, 0.9), output=path),
    "reverify": lambda path: reverify.command(Path("x.jsonl"), output=path),
    "merge": lambda path: merge.command(path, [Path("x.jsonl")]),
}
FOLDERS: dict[str, Callable[[Path], int]] = {
    "split": lambda path: split.command(["a.jsonl"], path),
    "prepare": lambda path: prepare.command(path, "example_validation", ["mcqa"]),
}


@pytest.mark.parametrize("write", FILES.values(), ids=FILES)
@pytest.mark.parametrize("name", ["rows.parquet", "rows.csv", "rows.jsonl.gz"])
def test_a_file_is_not_written_under_a_name_of_another_kind(
    write: Callable[[Path], int], name: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r": the file is (JSON lines, not|written unpacked)"):
        write(tmp_path / name)


@pytest.mark.parametrize("write", FOLDERS.values(), ids=FOLDERS)
@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet", "rows.zst"])
def test_a_folder_is_not_made_under_a_files_name(write: Callable[[Path], int], name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="several files are written, into a folder"):
        write(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_table_becomes_rows_and_what_they_lack_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("q\n1\n")
    assert from_library.command("a.csv", ["a.csv"], output=Path("rows.jsonl")) == 0
    assert Path("rows.jsonl").read_text() == '{"q":"1"}\n' * 2
    said = capsys.readouterr()
    assert said.out == "2 rows of a.csv, a.csv in rows.jsonl\n"
    assert "gym data render rows.jsonl --prompt" in said.err


def test_a_file_that_has_another_name_is_not_written_over_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("list").write_text('[{"q": 1}]')
    with pytest.raises(UserError, match="list would be read and written"):
        from_library.command("list", output=Path("list"))
    with pytest.raises(UserError, match="Of a file all rows are made"):
        from_library.command("list", rows=3, output=Path("rows.jsonl"))


def test_no_rows_are_not_split_or_rendered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.jsonl").touch()
    Path("p.yaml").write_text('user: "{q}"\n')
    with pytest.raises(UserError, match=r"empty\.jsonl: no rows"):
        split.command(["empty.jsonl"], Path("parts"))
    with pytest.raises(UserError, match=r"empty\.jsonl: no rows"):
        render.command(["empty.jsonl"], Path("p.yaml"), Path("rows.jsonl"))
    assert [path for path in tmp_path.rglob("*.jsonl") if path.name != "empty.jsonl"] == []
