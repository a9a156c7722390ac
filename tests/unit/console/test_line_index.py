"""The index beside a file of rollouts: it says what the file says, or it is not used."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from gym.console.viewer import lines
from gym.console.viewer.facts import Facts, read_facts
from gym.console.viewer.lines import LineFile
from tests.support.rollout_files import rollout, write_lines


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK_LINES", 10)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "x.jsonl", 100)


def write_rows(path: Path, count: int, reward: float = 0.5) -> Path:
    """Mixed: some have other components, some tools of another name, one line is malformed, some are blank."""
    rows = [rollout(each, 0, reward, agent=f"a{each % 3}", **{f"part{each % 2}": each}) for each in range(count)]
    return write_lines(path, [rows[0], b"\n", b"{oops\n", *rows[1:]])


def index_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.index")


def read(path: Path) -> LineFile:
    file = LineFile(path)
    file.refresh()
    return file


def facts(file: LineFile) -> list[tuple[int, int, Facts]]:
    columns = file.columns
    # NaN is not equal to itself.
    facts = [repr(columns.fact(index)) for index in range(len(columns))]
    return list(zip(columns.offsets, columns.numbers, facts, strict=True))  # type: ignore[arg-type]


def count_parsed(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[LineFile, int]:
    """(the file, how many of its lines were read from the disk to know them)."""
    seen = []

    def counting(raw: bytes, *, failed: bool) -> Facts:
        seen.append(raw)
        return read_facts(raw, failed=failed)

    with monkeypatch.context() as patched:
        patched.setattr(lines, "read_facts", counting)
        return read(path), len(seen)


def test_a_file_with_an_index_opens_with_the_same_columns_and_reads_only_what_is_new(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, parsed = count_parsed(path, monkeypatch)
    assert parsed == 101
    again, parsed = count_parsed(path, monkeypatch)
    assert parsed <= 10
    assert facts(again) == facts(first)
    assert again.columns.components.keys() == {"part0", "part1"}


def test_the_index_grows_with_its_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = read(path)
    before = index_of(path).stat().st_size
    with path.open("ab") as stream:
        stream.write(write_rows(path.with_name("more"), 60).read_bytes())
    file.refresh()
    assert index_of(path).stat().st_size > before
    again, parsed = count_parsed(path, monkeypatch)
    assert parsed <= 10
    assert facts(again) == facts(file)


@pytest.mark.parametrize("change", ["replaced", "shorter", "rewritten in place", "same size", "emptied"])
def test_an_index_that_does_not_fit_its_file_is_not_used_and_is_rebuilt(change: str, path: Path) -> None:
    read(path)
    if change == "replaced":
        write_rows(path.with_name("new"), 120, 0.25).replace(path)
    elif change == "shorter":
        os.truncate(path, path.stat().st_size // 2)
    elif change == "rewritten in place":
        path.write_bytes(write_rows(path.with_name("new"), 150, 1.0).read_bytes())
    elif change == "same size":
        old = path.read_bytes()
        path.write_bytes(old.replace(b'"reward":0.5', b'"reward":0.7'))
        os.utime(path, ns=(1, 1))
    else:
        path.write_bytes(b"")
    fresh = LineFile(path.rename(path.with_name("y.jsonl")))
    fresh.refresh()
    path = path.with_name("y.jsonl").rename(path)
    assert facts(read(path)) == facts(fresh)
    assert facts(read(path)) == facts(fresh)


@pytest.mark.parametrize("left", [0, 1, 30, 200, 1000, -1, -40])
def test_an_index_torn_at_any_place_is_used_as_far_as_it_is_whole(left: int, path: Path) -> None:
    first = facts(read(path))
    index = index_of(path)
    whole = index.read_bytes()
    index.write_bytes(whole[:left])
    assert facts(read(path)) == first
    assert facts(read(path)) == first


def test_garbage_in_an_index_is_never_believed(path: Path) -> None:
    first = facts(read(path))
    index = index_of(path)
    whole = index.read_bytes()
    for at in range(0, len(whole), 97):
        index.write_bytes(whole[:at] + bytes([whole[at] ^ 0x5A]) + whole[at + 1 :])
        assert facts(read(path)) == first, at


def test_two_viewers_at_once_do_not_spoil_each_other_s_index(path: Path) -> None:
    text = path.read_bytes()
    expected = facts(read(path))
    index_of(path).unlink()
    path.write_bytes(text[: len(text) // 2])
    one, other = LineFile(path), LineFile(path)
    threads = [threading.Thread(target=file.refresh) for file in (one, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with path.open("ab") as stream:
        stream.write(text[len(text) // 2 :])
    one.refresh()
    other.refresh()
    assert facts(one) == facts(other) == expected
    assert facts(read(path)) == expected


def test_where_no_index_can_be_written_the_file_is_read(path: Path) -> None:
    """As in a folder that is not writable, which stops no root."""
    index_of(path).mkdir()
    expected = facts(read(path))
    index_of(path).rmdir()
    elsewhere = path.with_name("elsewhere")
    index_of(path).symlink_to(elsewhere)
    assert facts(read(path)) == expected
    assert not elsewhere.exists()


def test_a_full_disk_ends_the_index_not_the_reading(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = facts(read(path))
    index_of(path).unlink()

    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", refuse)
        assert facts(read(path)) == expected
    assert facts(read(path)) == expected


def test_an_index_is_readable_by_those_who_may_read_the_file(path: Path) -> None:
    path.chmod(0o600)
    read(path)
    assert index_of(path).stat().st_mode & 0o777 == 0o600


def test_a_small_file_has_no_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    read(write_rows(tmp_path / "x.jsonl", 100))
    assert not list(tmp_path.glob(".*"))


def test_a_line_that_no_rollout_can_be_is_skipped_without_being_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 10_000)
    monkeypatch.setattr(lines, "_BUFFER", 1_000)
    path = write_lines(tmp_path / "x.jsonl", [rollout(0), rollout(1, text="x" * 50_000), rollout(2)])
    file = read(path)
    assert [file.columns.fact(index).kind for index in range(3)] == ["", "malformed", ""]
    assert file.read(2) == path.read_bytes().splitlines(keepends=True)[2]
    assert not file.refresh()
    with path.open("ab") as stream:
        stream.write(b"\n")
    file.refresh()
    assert len(file) == 3
