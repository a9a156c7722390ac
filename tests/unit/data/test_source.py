"""Lines from files, globs, gzip and standard input; files that are not there or not whole."""

from __future__ import annotations

import bz2
import errno
import gzip
import json
import lzma
import os
import re
import subprocess
import sys
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gym.data import line_source
from gym.data.line_blocks import read_blocks
from gym.data.line_source import count_lines, digest_inputs, expand_inputs, read_lines, row_to_line
from gym.errors import UserError
from gym.programs import install_command


def numbered(files: tuple[str, ...]) -> list[tuple[bytes, str, int]]:
    return [(line.raw, Path(line.file).name, line.number) for line in read_lines(files)]


def test_lines_know_their_file_and_number_and_blank_ones_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbfone\r\n\n  \ntwo")
    (tmp_path / "b.jsonl").write_bytes(b"three\n")
    files = expand_inputs([str(tmp_path / "*.jsonl")])
    assert numbered(files) == [(b"one", "a.jsonl", 1), (b"two", "a.jsonl", 4), (b"three", "b.jsonl", 1)]


def test_a_servers_folder_is_refused_with_the_files_of_its_rows(tmp_path: Path) -> None:
    (tmp_path / "mine/data").mkdir(parents=True)
    (tmp_path / "mine/data/example.jsonl").touch()
    with pytest.raises(UserError, match="is a folder") as refused:
        expand_inputs([f"{tmp_path}/mine/"])
    assert refused.value.hint == f"name its files: '{tmp_path}/mine/data/*.jsonl'"


def test_gzip_reads_as_the_file_within(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b"one\ntwo\n"))
    assert numbered((str(path),)) == [(b"one", "a.jsonl.gz", 1), (b"two", "a.jsonl.gz", 2)]


def test_a_gzip_file_that_was_cut_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(os.urandom(4000).hex().encode() + b"\n" + os.urandom(4000).hex().encode())[:5000])
    with pytest.raises(UserError, match=r"a\.jsonl\.gz:\d: cannot be read"):
        list(read_lines((str(path),)))


def test_standard_input_is_read_as_it_comes(tmp_path: Path) -> None:
    code = "from gym.data.line_source import read_lines\nfor line in read_lines(('-',)): print(line)"
    done = subprocess.run([sys.executable, "-c", code], input=b"one\ntwo\n", capture_output=True, check=True)
    assert done.stdout.decode().splitlines()[1] == "Line(raw=b'two', file='standard input', number=2)"


def test_a_file_that_is_not_there_is_reported_with_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").touch()
    with pytest.raises(UserError, match=r"did you mean train\.jsonl"):
        expand_inputs([str(tmp_path / "trian.jsonl")])
    with pytest.raises(UserError, match="no file matches"):
        expand_inputs([str(tmp_path / "*.csv")])
    with pytest.raises(UserError, match="is a folder"):
        expand_inputs([str(tmp_path)])
    with pytest.raises(UserError, match="named twice"):
        expand_inputs(["-", "-"])


def test_a_data_set_is_known_by_what_it_holds_and_not_by_its_place(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("same\n")
    two.write_text("same\n")
    assert digest_inputs((str(one),)) == digest_inputs((str(two),))
    two.write_text("other\n")
    assert digest_inputs((str(one),)) != digest_inputs((str(two),))
    assert digest_inputs(("-",)) == "stdin"


def test_a_large_data_set_is_known_by_its_size_and_samples(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as stream:
        stream.truncate(100 << 20)
    before = digest_inputs((str(path),))
    with path.open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(b"x")
    assert digest_inputs((str(path),)) != before


def test_lines_are_counted_where_that_is_cheap(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("one\ntwo")
    assert count_lines((str(path), str(path)), lambda: True) == 4
    assert count_lines((str(path),), lambda: False) is None
    assert count_lines((str(path), "-"), lambda: True) is None
    assert count_lines((str(tmp_path / "b.jsonl.gz"),), lambda: True) is None


def zstd(data: bytes) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd as module
    else:
        from backports import zstd as module
    return bytes(module.compress(data))


def test_zstd_reads_as_the_file_within_however_many_frames_it_has(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.zst"
    lines = [os.urandom(50).hex().encode() for _ in range(20_000)]
    path.write_bytes(zstd(b"\n".join(lines[:9]) + b"\n") + zstd(b"\n".join(lines[9:])))
    assert [line.raw for line in read_lines((str(path),))] == lines


def test_a_zstd_file_that_was_cut_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(zstd(b"one\n" * 10 + os.urandom(400_000).hex().encode())[:-1000])
    with pytest.raises(UserError, match=r"a\.jsonl\.zst:11: cannot be read"):
        list(read_lines((str(path),)))


def test_a_file_that_is_not_zstd_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(b"plain text\n" * 10)
    with pytest.raises(UserError, match=r"a\.jsonl\.zst:1: cannot be read"):
        list(read_lines((str(path),)))


def test_a_python_without_zstd_names_the_package(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(zstd(b"one\n"))
    hidden = "import sys; sys.modules['backports.zstd'] = sys.modules['compression.zstd'] = None\n"
    code = hidden + f"from gym.data.line_source import read_lines; list(read_lines(({str(path)!r},)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"{install_command('backports.zstd')}, or unzstd it" in done.stderr


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_a_packed_file_that_is_one_line_without_end_is_refused_at_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr(line_source, "_LONGEST", 4 << 20)
    path = tmp_path / f"bomb.jsonl{ending}"
    zeros = b"\0" * (256 << 20)
    path.write_bytes(gzip.compress(zeros, 1) if ending == ".gz" else zstd(zeros))
    assert path.stat().st_size < 2 << 20
    tracemalloc.start()
    with pytest.raises(UserError, match=r"bomb\.jsonl\.\w+:1: the line is longer than 4 MB"):
        list(read_lines((str(path),)))
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert held < 32 << 20


def test_a_programs_row_that_is_not_json_is_refused_with_its_number() -> None:
    with pytest.raises(UserError, match=r"^rows:7: the row cannot be written as JSON: .*set"):
        row_to_line({"question": {"a", "b"}}, "rows", 7)
    assert row_to_line({1: "one"}, "rows", 7).raw == b'{"1":"one"}'


@pytest.mark.parametrize("row", ["data/rows.jsonl", Path("data/rows.jsonl"), "rows.jsonl.gz"])
def test_a_files_name_in_the_place_of_a_row_is_called_so(row: Any) -> None:
    with pytest.raises(UserError, match=r"^rows:1: '.*rows\.jsonl.*' names a file") as refused:
        row_to_line(row, "rows", 1)
    assert refused.value.hint == f"give its lines: open({str(row)!r})"


@pytest.mark.parametrize(
    ("name", "raw", "words", "hint"),
    [
        ("a.jsonl", gzip.compress(b"{}\n", mtime=0), "is packed by gzip, which its name does not say", "end in .gz"),
        ("a.GZ", gzip.compress(b"{}\n", mtime=0), "is packed by gzip, which its name does not say", "end in .gz"),
        ("a.jsonl", b"\x28\xb5\x2f\xfd0000", "is packed by zstd, which its name does not say", "end in .zst"),
        ("a.jsonl.bz2", bz2.compress(b"{}\n"), "is packed by bzip2, which is not read here", "bunzip2 -k"),
        ("a.jsonl.xz", lzma.compress(b"{}\n"), "is packed by xz, which is not read here", "unxz -k"),
        ("a.parquet", b"PAR1....PAR1", "is a file of parquet", "a.parquet -o rows.jsonl"),
        ("a.arrow", b"\xff\xff\xff\xff\x10\x01\x00\x00", "is a file of arrow", "gym data from"),
        ("a.csv", b"question,answer\n1,2\n", "is a table", "gym data from"),
        ("a.json", b'[\n  {"a": 1}\n]', "is a list in JSON", "gym data from"),
        ("a.jsonl", b'[{"a": 1}]', "is a list in JSON", "gym data from"),
        ("a.jsonl.gz", b'{"a": 1}\n', "is named as a file that gzip packed, and holds plain lines", "not end in .gz"),
        ("a.jsonl.zst", b'\n {"a": 1}\n', "is named as a file that zstd packed, and holds plain lines", ".zstd"),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_called_what_it_is(
    tmp_path: Path, name: str, raw: bytes, words: str, hint: str
) -> None:
    (tmp_path / name).write_bytes(raw)
    for read in (read_lines, partial(read_blocks, max_line=1 << 20)):
        with pytest.raises(UserError, match=re.escape(f"{name} {words}")) as refused:
            list(read((str(tmp_path / name),)))
        assert hint in refused.value.hint


def test_a_packed_file_on_standard_input_is_called_what_it_is() -> None:
    reader = "from gym.data.line_source import read_lines; list(read_lines(['-']))"
    done = subprocess.run(
        [sys.executable, "-c", reader], input=gzip.compress(b"{}\n"), capture_output=True, check=False
    )
    assert b"standard input is packed by gzip, which is not read here" in done.stderr


def test_a_file_that_may_not_be_read_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    (tmp_path / "a.jsonl").write_text("{}\n")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UserError, match=r"a\.jsonl cannot be read: Permission denied"):
        list(read_blocks((str(tmp_path / "a.jsonl"),), 1 << 20))


def test_a_frame_of_zstd_with_a_large_window_is_not_called_damaged(tmp_path: Path) -> None:
    zstd = pytest.importorskip("backports.zstd")
    options = {zstd.CompressionParameter.window_log: 28, zstd.CompressionParameter.enable_long_distance_matching: 1}
    packer = zstd.ZstdCompressor(options=options)
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(packer.compress(b"{}\n") + packer.flush())
    with pytest.raises(UserError) as refused:
        list(read_lines((str(path),)))
    assert f"zstd -d --long=31 {path}" in refused.value.hint
    [block] = read_blocks((str(path),), 1 << 20)
    assert block.problem is not None
    assert f"zstd -d --long=31 {path}" in block.problem.hint


def test_a_programs_row_keeps_integers_of_any_size_as_a_file_does() -> None:
    line = row_to_line({"x": 2**70, 1: [-(2**64), None, 1.5]}, "rows", 1)
    assert json.loads(line.raw) == {"x": 2**70, "1": [-(2**64), None, 1.5]}


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("beside", [1, 2**70])
def test_a_programs_row_with_what_is_not_a_json_number_is_refused(number: float, beside: int) -> None:
    with pytest.raises(UserError, match=r"^rows:7: the row cannot be written as JSON: it holds -?(nan|inf)"):
        row_to_line({"question": [{"n": beside}, (None, number)]}, "rows", 7)
    assert row_to_line({"question": "NaN, null"}, "rows", 7).raw == b'{"question":"NaN, null"}'
