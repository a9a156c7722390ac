"""Tables and lists of this machine become rows that say what they said, or an error that names the place."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from gym.data.table_files import is_table_name, tables_to_rows
from gym.errors import GymError, UserError


@pytest.fixture
def arrow() -> Any:
    pytest.importorskip("pyarrow.parquet")
    return pytest.importorskip("pyarrow")


def rows_of(path: Path, raw: bytes) -> bytes:
    path.write_bytes(raw)
    out = path.with_name("rows.jsonl")
    made = tables_to_rows([str(path)], out)
    assert made.rows == out.read_bytes().count(b"\n")
    return out.read_bytes()


@pytest.mark.parametrize(
    ("name", "raw", "rows"),
    [
        (
            "a.csv",
            b'\xef\xbb\xbfq,a\r\n007,"say ""hi"",\r\ntwice"\r\n\r\n,\r\n',
            b'{"q":"007","a":"say \\"hi\\",\\r\\ntwice"}\n{"q":"","a":""}\n',
        ),
        ("A.TSV", b"q\ta\n1,5\ttrue\n", b'{"q":"1,5","a":"true"}\n'),
        ("a.csv.gz", gzip.compress(b"q\nx\n", mtime=0), b'{"q":"x"}\n'),
        (
            "a.csv",
            b'responses_create_params,id\n"{""input"": [{""content"": 1}]}","{1}"\n',
            b'{"responses_create_params":{"input": [{"content": 1}]},"id":"{1}"}\n',
        ),
        ("a.csv", b"q\n" + b"x" * 200_000 + b"\n", b'{"q":"' + b"x" * 200_000 + b'"}\n'),
        (
            "a.json",
            b'[{"big": 123456789012345678901234567890,\n "f": 1.10} ,\n{"n": null, "s": "\\ud800"}]\n',
            b'{"big": 123456789012345678901234567890,  "f": 1.10}\n{"n": null, "s": "\\ufffd"}\n',
        ),
        ("list", b'\xef\xbb\xbf [{"a": "]"}] ', b'{"a": "]"}\n'),
    ],
)
def test_values_are_what_they_were(tmp_path: Path, name: str, raw: bytes, rows: bytes) -> None:
    assert rows_of(tmp_path / name, raw) == rows


@pytest.mark.parametrize("stream", [True, False])
def test_arrow_is_read_as_a_file_and_as_a_stream(arrow: Any, tmp_path: Path, stream: bool) -> None:
    table = arrow.table({"q": ["1", "2"], "n": [2**53 + 1, None]})
    begin = arrow.ipc.new_stream if stream else arrow.ipc.new_file
    with begin(str(tmp_path / "a.arrow"), table.schema) as out:
        out.write_table(table, max_chunksize=1)
    assert tables_to_rows([str(tmp_path / "a.arrow")], tmp_path / "rows.jsonl").rows == 2
    assert (tmp_path / "rows.jsonl").read_bytes() == b'{"q":"1","n":9007199254740993}\n{"q":"2","n":null}\n'


def test_files_of_several_kinds_follow_one_another(arrow: Any, tmp_path: Path) -> None:
    arrow.parquet.write_table(arrow.table({"q": ["1"], "f": [float("nan")]}), tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("q\n2\n")
    made = tables_to_rows([str(tmp_path / "a.parquet"), str(tmp_path / "b.csv")], tmp_path / "rows.jsonl")
    assert (made.rows, made.not_finite) == (2, 1)
    assert (tmp_path / "rows.jsonl").read_bytes() == b'{"q":"1","f":null}\n{"q":"2"}\n'


@pytest.mark.parametrize(
    ("name", "raw", "words"),
    [
        ("a.csv", b'q,a\n1,"x\ny"\n2,z,3\n', r"a\.csv:4: 3 cells, and the first line has 2 names"),
        ("a.csv", b"q,q\n1,2\n", r"a\.csv:1: two columns have the name 'q'"),
        ("a.csv", b"q,\n1,2\n", r"a\.csv:1: a column has no name"),
        ("a.csv", b'q\n"1\n', r"a\.csv:2: unexpected end of data"),
        ("a.csv", b"q\ncaf\xe9\n", r"a\.csv is not UTF-8: byte 0xe9"),
        ("a.csv", b"", r"a\.csv has no rows"),
        ("a.csv", b"q\n", r"a\.csv has no rows"),
        ("a.csv", b"id,agent_ref\n1,{}\n2,{x\n", r"a\.csv: row 2: agent_ref is a text that is not JSON"),
        ("a.csv.gz", gzip.compress(b"q\n1\n", mtime=0)[:-9], r"a\.csv\.gz cannot be read: "),
        ("a.csv.gz", b"q\n1\n", r"a\.csv\.gz"),
        ("a.json", b'[{"a": 1}, 2]', r"a\.json: item 2 of the list is not an object"),
        ("a.json", b'[\n{"a": 1},\n{"a": }\n]', r"a\.json:3: item 2 is not JSON"),
        ("a.json", b'[{"a": NaN}]', r"a\.json:1: item 1 is not JSON"),
        ("a.json", b'[{"a": 1}\n{"b": 2}]', r"a\.json:2: item 1 is not JSON: a comma or \] is missing"),
        ("a.json", b'[{"a": 1},]', r"a\.json:1: item 1 is not JSON: a comma, and no item"),
        ("a.json", b'[{"a": 1}', r"item 1 is not JSON: a comma or \] is missing"),
        ("a.json", b'[{"a": 1}]\n[{"b": 1}]', r"something stands behind the end of the list"),
        ("a.json", b"[", r"item 1 is not JSON"),
        ("a.json", b"[]", r"a\.json has no rows"),
        ("a.json", b'{"data": [{"a": 1}]}', r"a\.json begins with an object"),
        ("a.txt", b"hello", r"a\.txt is none of \.parquet, \.arrow"),
        ("a.parquet", b"hello", "not installed|is not a parquet file that can be read"),
        ("a.arrow", b"hello", "not installed|is not an arrow file that can be read"),
    ],
)
def test_what_cannot_be_a_row_is_named_and_nothing_is_written(
    tmp_path: Path, name: str, raw: bytes, words: str
) -> None:
    with pytest.raises(GymError, match=words):
        rows_of(tmp_path / name, raw)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_column_that_stands_twice_is_not_lost(arrow: Any, tmp_path: Path) -> None:
    table = arrow.Table.from_arrays([arrow.array([1]), arrow.array([2])], names=["a", "a"])
    arrow.parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"a\.parquet has the column 'a' twice"):
        tables_to_rows([str(tmp_path / "a.parquet")], tmp_path / "rows.jsonl")


def test_a_librarys_name_is_not_the_name_of_a_table() -> None:
    assert [name for name in ("gymnasium", "a.jsonl", "x/A.CSV", "a.json.gz", "a.parquet") if is_table_name(name)] == [
        "x/A.CSV",
        "a.json.gz",
        "a.parquet",
    ]
