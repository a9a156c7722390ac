"""Blocks of whole lines, and files that are not as they should be: none of it ends a run."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
from backports import zstd
from hypothesis import assume, given
from hypothesis import strategies as st

from gym.data.file_kinds import ALL
from gym.data.line_blocks import _Reader, read_blocks
from gym.errors import Problem


def read(path: Path, max_line: int = 1000, size: int = 64) -> tuple[list[tuple[int, bytes]], list[Problem]]:
    blocks = list(read_blocks([str(path)], max_line, size))
    lines = [(line.number, line.raw) for block in blocks for line in block.lines()]
    return lines, [block.problem for block in blocks if block.problem is not None]


@pytest.mark.parametrize("size", [1, 2, 5, 64])
def test_lines_keep_their_numbers_whatever_the_blocks(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\n  \ntwo\r\nthree")
    assert read(path, size=max(size, 3)) == ([(1, b"one"), (4, b"two"), (5, b"three")], [])


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_a_cut_file_gives_its_whole_lines_and_then_a_finding(tmp_path: Path, ending: str) -> None:
    texts = (random.Random(number).randbytes(200).hex().encode() for number in range(1, 4000))
    text = b"".join(b"%d %s\n" % (number, one) for number, one in enumerate(texts, 1))
    whole = gzip.compress(text) if ending == ".gz" else zstd.compress(text)
    path = tmp_path / f"rows.jsonl{ending}"
    path.write_bytes(whole[: len(whole) * 2 // 3])
    lines, (problem,) = read(path, size=4096)
    assert len(lines) > 100
    assert [number for number, _ in lines] == list(range(1, len(lines) + 1))
    assert all(raw + b"\n" in text for _, raw in lines)
    assert problem.line == len(lines) + 1
    assert "cannot be read from here on" in problem.what
    assert "the file is damaged" in problem.hint


def test_a_line_that_is_too_long_is_reported_and_the_next_ones_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"a\n" + b"x" * 5000 + b"\nb\nc\n")
    lines, (problem,) = read(path)
    assert lines == [(1, b"a"), (3, b"b"), (4, b"c")]
    assert (problem.line, problem.what) == (2, "the line is longer than 1,000 bytes")


def test_of_a_line_that_is_too_long_no_more_than_the_bound_is_held(tmp_path: Path) -> None:
    reader = _Reader("rows.jsonl", 1000, 64)
    held = 0
    with path_of(tmp_path, b"x" * 100_000).open("rb") as stream:
        for _ in reader.read(stream):
            held = max(held, sum(map(len, reader._partial)))
    assert held <= 1000


def path_of(folder: Path, raw: bytes) -> Path:
    path = folder / "long.jsonl"
    path.write_bytes(raw)
    return path


@pytest.mark.parametrize("raw", [b"", b"\n\n", b" \r\n"])
def test_a_file_without_rows_is_a_finding(tmp_path: Path, raw: bytes) -> None:
    lines, (problem,) = read(path_of(tmp_path, raw))
    assert lines == []
    assert problem.what == "has no rows"


@given(st.lists(st.binary(max_size=30).map(lambda raw: raw.replace(b"\n", b"")), max_size=30), st.integers(3, 50))
def test_every_line_is_read_once(tmp_path_factory: pytest.TempPathFactory, texts: list[bytes], size: int) -> None:
    raw = b"\n".join(texts)
    assume(not raw.startswith(tuple(kind.magic for kind in ALL)))  # a packed file, and none of lines
    path = path_of(tmp_path_factory.mktemp("blocks"), raw)
    first = raw.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    expected = [(number, text.strip()) for number, text in enumerate(first, 1) if text.strip()]
    assert read(path, size=size)[0] == expected
