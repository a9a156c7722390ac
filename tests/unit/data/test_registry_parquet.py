"""Rows of parquet come out as they were before parquet was made of them."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest

from gym.data.registries.arrow_values import decimal_to_number, text_to_json, time_to_text
from gym.data.registries.parquet import WrittenRows, objects_of_texts, write_rows
from gym.errors import GymError, InfraError, UserError
from gym.programs import install_command

PARAMS = "responses_create_params"
BIG = 123456789012345678901234567890
WriteTable = Callable[[Any], Path]
NS = "2019-12-31T23:42:03.000000001"


@pytest.fixture
def arrow() -> Any:
    return pytest.importorskip("pyarrow")


@pytest.fixture
def write_table(arrow: Any, tmp_path: Path) -> WriteTable:
    parquet = pytest.importorskip("pyarrow.parquet")

    def write(columns: Any) -> Path:
        path = tmp_path / "train.parquet"
        table = arrow.table(columns) if isinstance(columns, dict) else arrow.Table.from_pylist(columns)
        parquet.write_table(table, path)
        return path

    return write


def read_back(path: Path) -> list[Any]:
    out = io.BytesIO()
    write_rows(path, out)
    return [orjson.loads(line) for line in out.getvalue().splitlines()]


def test_mixed_objects_come_back_as_objects_at_any_depth(arrow: Any, write_table: WriteTable) -> None:
    def as_json(texts: list[str | None]) -> Any:
        return arrow.ExtensionArray.from_storage(arrow.json_(), arrow.array(texts, arrow.string()))

    options = arrow.ListArray.from_arrays([0, 2, 2, 3], as_json(['{"A": "x"}', '{\n"B": null}', "7"]))
    struct = arrow.StructArray.from_arrays([as_json(['{"p": {"q": null}}', None, "[]"])], ["properties"])
    path = write_table({"options": options, "tool": struct})
    assert read_back(path) == [
        {"options": [{"A": "x"}, {"B": None}], "tool": {"properties": {"p": {"q": None}}}},
        {"options": [], "tool": {}},
        {"options": [7], "tool": {"properties": []}},
    ]


def test_a_pyarrow_that_does_not_know_json_is_too_old(
    arrow: Any, write_table: WriteTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = arrow.ExtensionArray.from_storage(arrow.json_(), arrow.array(["{}"], arrow.string()))
    path = write_table({"x": arrow.ListArray.from_arrays([0, 1], texts)})
    monkeypatch.delattr(arrow, "json_")
    with pytest.raises(UserError, match=r"train\.parquet has columns of JSON, which this pyarrow is too old") as caught:
        read_back(path)
    assert caught.value.hint == install_command("pyarrow>=19")


def test_fields_that_another_row_has_are_not_part_of_an_answer(write_table: WriteTable) -> None:
    rows = [
        {"answers": [{"arguments": {"amount": 250}, "tags": ["a", None]}], "level": 1, PARAMS: {"input": "q"}},
        {"answers": [{"arguments": {"country": "TR"}, "tags": []}], "level": None, PARAMS: {"input": "q"}},
        {"answers": None, "level": None, PARAMS: None},
    ]
    assert read_back(write_table(rows)) == rows


def test_numbers_stay_the_same_numbers(arrow: Any, write_table: WriteTable) -> None:
    given = ["9007199254740993", str(BIG), "0.10", "0.1234567890123456789", None]
    values = arrow.array([None if one is None else Decimal(one) for one in given], arrow.decimal256(60, 19))
    path = write_table({"x": values})
    out = io.BytesIO()
    write_rows(path, out)
    words = [line.removeprefix(b'{"x":').removesuffix(b"}") for line in out.getvalue().splitlines()]
    assert words == [b"9007199254740993", str(BIG).encode(), b"0.1", b'"0.1234567890123456789"', b"null"]


@pytest.mark.parametrize(
    ("given", "number"), [("7.00", 7), ("-9223372036854775808", -(1 << 63)), ("0.5", 0.5), ("1E-7", 1e-7)]
)
def test_a_decimal_is_the_number_that_it_equals(given: str, number: float) -> None:
    assert decimal_to_number(Decimal(given)) == number


def test_a_decimal_that_is_not_a_float_is_text() -> None:
    assert decimal_to_number(Decimal("0.1000000000000000055")) == "0.1000000000000000055"
    assert orjson.dumps(decimal_to_number(Decimal(1 << 63))) == b"9223372036854775808"


def test_times_are_written_to_the_nanosecond() -> None:
    day, took = datetime(2020, 1, 1, tzinfo=UTC), timedelta(seconds=-1, microseconds=5)
    assert time_to_text(day) == "2020-01-01T00:00:00+00:00"
    assert time_to_text(day, 7) == "2020-01-01T00:00:00.000000007+00:00"
    assert (time_to_text(took), time_to_text(took, 7)) == ("-1 day, 23:59:59.000005", "-1 day, 23:59:59.000005007")


def test_json_text_is_kept_on_one_line_as_it_was_written() -> None:
    assert orjson.dumps(text_to_json(f'{{"a": [null,\r\n1.50, {BIG}]}}')) == b'{"a": [null,  1.50, %d]}' % BIG
    assert orjson.dumps(text_to_json('"\\ud800"')) == b'"\\ufffd"'
    with pytest.raises(ValueError, match="NaN|unexpected"):
        text_to_json("[NaN]")


def test_maps_are_objects(arrow: Any, write_table: WriteTable) -> None:
    kind = arrow.map_(arrow.string(), arrow.struct([("n", arrow.int64()), ("m", arrow.int64())]))
    maps = arrow.array([[("a", {"n": 1})], None, [("b", None), ("c", {"m": 2})]], kind)
    numbered = arrow.array([[(1, True)], [], []], arrow.map_(arrow.int64(), arrow.bool_()))
    assert read_back(write_table({"maps": maps, "numbered": numbered})) == [
        {"maps": {"a": {"n": 1}}, "numbered": {"1": True}},
        {"maps": None, "numbered": {}},
        {"maps": {"b": None, "c": {"m": 2}}, "numbered": {}},
    ]
    twice = arrow.array([[], [("a", 1), ("a", 2)]], arrow.map_(arrow.string(), arrow.int64()))
    with pytest.raises(UserError, match=r"train\.parquet: row 2: x cannot be written as JSON: a map has the key 'a'"):
        read_back(write_table({"x": twice}))


def test_text_of_params_is_taken_as_it_is(write_table: WriteTable) -> None:
    params = '{"input": "q",\n "tools": [{"const": null}], "metadata": {"id": BIG}}'.replace("BIG", str(BIG))
    out = io.BytesIO()
    assert write_rows(write_table([{PARAMS: params, "note": "{"}]), out) == WrittenRows(1)
    assert b'{"const": null}' in out.getvalue()
    assert str(BIG).encode() in out.getvalue()
    assert out.getvalue().count(b"\n") == 1


def test_text_that_is_not_json_is_named_with_its_row() -> None:
    with pytest.raises(UserError, match=rf"train\.parquet: row 1002: {PARAMS} is a text that is not JSON"):
        objects_of_texts(PARAMS, ["{}", '{"input": "q"'], "train.parquet", before=1000)
    assert objects_of_texts("agent_ref", ["mcqa_agent", None], "train.parquet") == ["mcqa_agent", None]


def test_times_keep_their_nanoseconds_whether_pandas_is_there_or_not(arrow: Any, write_table: WriteTable) -> None:
    count = 1577835723000000001
    table = {
        "ns": arrow.array([count], arrow.timestamp("ns")),
        "zone": arrow.array([count], arrow.timestamp("ns", "UTC")),
        "even": arrow.array([count - 1], arrow.timestamp("ns")),
        "us": arrow.array([count // 1000], arrow.timestamp("us", "UTC")),
        "time": arrow.array([1001], arrow.time64("ns")),
        "took": arrow.array([1_000_000_001], arrow.duration("ns")),
        "day": arrow.array([1], arrow.date32()),
    }
    (row,) = read_back(write_table(table))
    assert row == {
        **{"ns": NS, "zone": f"{NS}+00:00", "even": NS[:19], "us": f"{NS[:19]}+00:00"},
        **{"time": "00:00:00.000001001", "took": "0:00:01.000000001", "day": "1970-01-02"},
    }


def test_a_date_that_no_calendar_has_names_file_row_and_column(arrow: Any, write_table: WriteTable) -> None:
    for kind, count in ((arrow.timestamp("us"), 1 << 62), (arrow.date32(), 1 << 30), (arrow.duration("s"), 1 << 62)):
        path = write_table({"n": [1, 2], "x": arrow.array([0, count], kind)})
        with pytest.raises(UserError, match=r"train\.parquet: row 2: x cannot be written as JSON"):
            read_back(path)


def test_what_json_has_no_word_for_is_null_and_counted(arrow: Any, write_table: WriteTable) -> None:
    rows = [{"x": float("nan"), "y": {"z": float("inf")}}, {"x": 1.5, "y": {"z": None}}, {"x": None, "y": None}]
    out = io.BytesIO()
    assert write_rows(write_table(rows), out) == WrittenRows(3, not_finite=2)
    lines = [orjson.loads(line) for line in out.getvalue().splitlines()]
    assert lines == [{"x": None, "y": {"z": None}}, {"x": 1.5, "y": {}}, {"x": None, "y": None}]


def test_a_damaged_file_is_named(write_table: WriteTable) -> None:
    path = write_table([{"text": f"row {number} of many"} for number in range(5000)])
    whole = path.read_bytes()
    for damaged in (b"PAR1", whole[:200], whole[:4] + bytes(400) + whole[404:], whole[:-400] + bytes(392) + whole[-8:]):
        path.write_bytes(damaged)
        with pytest.raises(InfraError, match=r"^hf:o/x: train\.parquet is not a parquet file that can be read"):
            write_rows(path, io.BytesIO(), "hf:o/x: train.parquet")


def test_an_output_that_cannot_be_written_is_not_the_files_fault(write_table: WriteTable) -> None:
    class Full(io.BytesIO):
        def write(self, _data: Any) -> int:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space") as caught:
        write_rows(write_table([{"n": 1}]), Full())
    assert not isinstance(caught.value, GymError)
