"""Rows of parquet and arrow files as JSON lines. Needs pyarrow, only when a data set has nothing else."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from gym.data.registries.arrow_values import ArrowValues, text_to_json
from gym.data.row_parsing import AGENT_REF, PARAMS
from gym.errors import InfraError, UserError
from gym.programs import install_command

_BATCH = 1000
_FILE = b"ARROW1"  # how an arrow file begins that is not a stream
_Table = AbstractContextManager[tuple[Any, Iterator[Any]]]  # its schema and its batches


@dataclass(frozen=True)
class WrittenRows:
    """How many rows there were, and how many numbers of them are null because JSON has no word for them."""

    rows: int
    not_finite: int = 0


def write_rows(path: Path, out: BinaryIO, name: str = "") -> WrittenRows:
    """A batch in memory at a time; `name` is what errors call the file."""
    return _write(_open_parquet(need_pyarrow(), path), out, name or path.name, "parquet")


def write_arrow_rows(path: Path, out: BinaryIO, name: str = "") -> WrittenRows:
    """Of a file or of a stream, which is what `datasets` keeps; a batch in memory at a time."""
    need_pyarrow()
    return _write(_open_arrow(path), out, name or path.name, "arrow")


def objects_of_texts(column: str, values: list[Any], name: str, before: int = 0) -> list[Any]:
    """Objects may be stored as JSON text, which then is taken as it is; `before` rows stand above the first value."""
    found = list(values)
    for number, value in enumerate(values, before + 1):
        if isinstance(value, str) and (column == PARAMS or value.lstrip().startswith("{")):
            try:
                found[number - before - 1] = text_to_json(value)
            except ValueError as error:
                raise UserError(f"{name}: row {number}: {column} is a text that is not JSON: {error}", _HINT) from None
    return found


def need_pyarrow() -> Any:
    try:
        return importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise UserError(
            "pyarrow, which reads parquet and arrow, is not installed", install_command("pyarrow")
        ) from None


_ARTICLES = {"parquet": "a", "arrow": "an"}
_HINT = "correct it in the data set, or name another file"


def _write(table: _Table, out: BinaryIO, name: str, kind: str) -> WrittenRows:
    values, count = ArrowValues(), 0
    for batch in _read_batches(table, values, name, kind):
        columns = [_read_column(values, batch, place, name, count) for place in range(batch.num_columns)]
        for row in zip(*columns, strict=True) if columns else ():
            filled = dict(zip(batch.schema.names, row, strict=True))
            out.write(orjson.dumps(filled, default=str, option=orjson.OPT_APPEND_NEWLINE))
        count += batch.num_rows
    return WrittenRows(count, values.not_finite)


@contextmanager
def _open_parquet(parquet: Any, path: Path) -> Iterator[tuple[Any, Iterator[Any]]]:
    with parquet.ParquetFile(path) as table:
        yield table.schema_arrow, table.iter_batches(batch_size=_BATCH)


@contextmanager
def _open_arrow(path: Path) -> Iterator[tuple[Any, Iterator[Any]]]:
    ipc = importlib.import_module("pyarrow.ipc")
    with path.open("rb") as file:
        is_stream = file.read(len(_FILE)) != _FILE
        file.seek(0)
        table = ipc.open_stream(file) if is_stream else ipc.open_file(file)
        yield table.schema, iter(table) if is_stream else map(table.get_batch, range(table.num_record_batches))


def _read_batches(table: _Table, values: ArrowValues, name: str, kind: str) -> Iterator[Any]:
    """What goes wrong while rows are written is not the file's, and passes by."""
    known: tuple[type[Exception], ...] = (OSError, *values.errors)
    try:
        with table as (schema, batches):
            _check_schema(values, schema, name)
            yield from batches
    except known as error:
        hint = "the file is damaged: name another one, or upload it again"
        raise InfraError(f"{name} is not {_ARTICLES[kind]} {kind} file that can be read: {error}", hint) from error


def _check_schema(values: ArrowValues, schema: Any, name: str) -> None:
    if not values.can_read(schema):
        what = f"{name} has columns of JSON, which this pyarrow is too old to read"
        raise UserError(what, install_command("pyarrow>=19"))
    if twice := [column for column, count in Counter(schema.names).items() if count > 1]:
        raise UserError(f"{name} has the column {twice[0]!r} twice: a row has one value of a name", _HINT)


def _read_column(values: ArrowValues, batch: Any, place: int, name: str, before: int) -> list[Any]:
    column, array = batch.schema.names[place], batch.column(place)
    try:
        found = values.read(array)
    except values.errors as error:
        row = before + 1 + _first_unreadable(values, array)
        raise UserError(f"{name}: row {row}: {column} cannot be written as JSON: {error}", _HINT) from error
    return objects_of_texts(column, found, name, before) if column in (PARAMS, AGENT_REF) else found


def _first_unreadable(values: ArrowValues, array: Any) -> int:
    for number in range(len(array)):
        try:
            values.read(array.slice(number, 1))
        except values.errors:
            return number
    return 0
