"""Files of this machine that are not JSON lines, as rows: parquet, arrow, tables of text, and lists of objects in JSON.

Values stay what they are: a cell of CSV is a text, a number in JSON keeps its digits.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Iterator, Sequence
from json import JSONDecodeError
from pathlib import Path
from typing import BinaryIO, Final, cast

import orjson

from gym.data.file_kinds import GZIP, TEXT_TABLES, ZSTD, Kind, check_packed, named_kind
from gym.data.registries.arrow_values import text_to_json
from gym.data.registries.parquet import WrittenRows, objects_of_texts, write_arrow_rows, write_rows
from gym.data.row_parsing import AGENT_REF, PARAMS
from gym.data.whole_files import whole_file
from gym.data.zstd import open_zstd
from gym.errors import GymError, UserError

KINDS: Final = (".parquet", ".arrow", *TEXT_TABLES, ".json")
_ARROW: Final = (b"ARROW1", b"\xff\xff\xff\xff")
_SPACE: Final = re.compile(r"\s*")
_LONGEST_CELL: Final = 256 << 20
_HINT: Final = "correct it there, then run the same command"


def is_table_name(word: str) -> bool:
    return _bare_name(word).endswith(KINDS)


def tables_to_rows(files: Sequence[str], output: Path) -> WrittenRows:
    """The rows of all files in their order, whole or not at all."""
    rows = not_finite = 0
    with whole_file(output) as out:
        for file in files:
            written = _write_file(file, out)
            if not written.rows:
                raise UserError(f"{file} has no rows", "name another file")
            rows += written.rows
            not_finite += written.not_finite
    return WrittenRows(rows, not_finite)


def _write_file(file: str, out: BinaryIO) -> WrittenRows:
    path, name = Path(file), _bare_name(file)
    with path.open("rb") as stream:
        head = stream.read(8)
    if head.startswith(b"PAR1") or name.endswith(".parquet"):
        return write_rows(path, out, file)
    if head.startswith(_ARROW) or name.endswith(".arrow"):
        return write_arrow_rows(path, out, file)
    rows = _table_rows(file) if name.endswith(TEXT_TABLES) else _list_rows(file)
    return WrittenRows(sum(out.write(row + b"\n") > 0 for row in rows))


def _table_rows(file: str) -> Iterator[bytes]:
    """By the names of the first line. Every cell is a text; those that hold a row's own objects are read as JSON."""
    csv.field_size_limit(_LONGEST_CELL)
    lines = csv.reader(_text_lines(file), delimiter="\t" if _bare_name(file).endswith(".tsv") else ",", strict=True)
    try:
        names = next(lines, [])
        _check_names(names, file)
        for number, cells in enumerate(filter(None, lines), 1):
            if len(cells) != len(names):
                what = f"{file}:{lines.line_num}: {len(cells)} cells, and the first line has {len(names)} names"
                raise UserError(what, _HINT)
            yield orjson.dumps({name: _cell(name, one, file, number) for name, one in zip(names, cells, strict=True)})
    except csv.Error as error:
        raise UserError(f"{file}:{lines.line_num}: {error}", _HINT) from None


def _check_names(names: list[str], file: str) -> None:
    if bad := [name for name in names if not name.strip() or names.count(name) > 1]:
        what = f"two columns have the name {bad[0]!r}" if bad[0].strip() else "a column has no name"
        raise UserError(f"{file}:1: {what}", "let the first line name every column")


def _cell(name: str, text: str, file: str, number: int) -> object:
    return objects_of_texts(name, [text], file, number - 1)[0] if name in (PARAMS, AGENT_REF) else text


def _list_rows(file: str) -> Iterator[bytes]:
    """Each as it is written there; the whole text is in memory."""
    text = "".join(_text_lines(file))
    place, number, decoder = _after_space(text, 0), 0, json.JSONDecoder()
    if text[place : place + 1] != "[":
        raise _no_list(file, text[place : place + 1])
    place = _after_space(text, place + 1)
    while text[place : place + 1] != "]":
        number += 1
        try:
            end = _after_space(text, decoder.raw_decode(text, place)[1])
            row = orjson.dumps(text_to_json(text[place:end]))
            _check_comma(text, end)
        except (ValueError, RecursionError) as error:
            line = text.count("\n", 0, error.pos if isinstance(error, JSONDecodeError) else place) + 1
            raise UserError(f"{file}:{line}: item {number} is not JSON: {error}", _HINT) from None
        if not row.startswith(b"{"):
            raise UserError(f"{file}: item {number} of the list is not an object", _HINT)
        yield row.rstrip()
        place = _after_space(text, end + 1) if text[end] == "," else end
    if _after_space(text, place + 1) < len(text):
        raise UserError(f"{file}: something stands behind the end of the list", _HINT)


def _check_comma(text: str, place: int) -> None:
    sign = text[place : place + 1]
    if not sign or sign not in ",]":
        raise JSONDecodeError("a comma or ] is missing behind it", text, place)
    if sign == "," and text.startswith("]", _after_space(text, place + 1)):
        raise JSONDecodeError("a comma, and no item behind it", text, place)


def _no_list(file: str, begin: str) -> UserError:
    if begin == "{":
        hint = (
            f"JSON lines are read as they are, by gym rollouts {file}; a list in an object: jq .NAME {file} > list.json"
        )
        return UserError(f"{file} begins with an object; rows are made of a list of objects", hint)
    return UserError(f"{file} is none of {', '.join(KINDS)}", "name a table, or a list of objects in JSON")


def _after_space(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return found.end() if found else place


def _text_lines(file: str) -> Iterator[str]:
    """What goes wrong with what is made of them passes by."""
    try:
        with io.TextIOWrapper(_open(file), "utf-8-sig", newline="") as text:
            yield from text
    except GymError:
        raise
    except UnicodeDecodeError as error:
        what = f"{file} is not UTF-8: byte {error.object[error.start]:#x}"
        raise UserError(what, f"convert it, as in iconv -f latin1 -t utf-8 {file}") from None
    except Exception as error:  # noqa: BLE001 (every decompressor has error classes of its own)
        raise UserError(f"{file} cannot be read: {error}", "fetch the file again, then run the same command") from error


def _open(file: str) -> BinaryIO:
    kind = _packed(file)
    if kind is not None:
        with Path(file).open("rb") as begin:
            check_packed(file, kind, begin.read(8))
    if kind is GZIP:
        return cast(BinaryIO, gzip.open(file, "rb"))
    return open_zstd(file) if kind is ZSTD else Path(file).open("rb")


def _packed(file: str) -> Kind | None:
    return named_kind(file.lower())


def _bare_name(file: str) -> str:
    name, kind = file.lower(), _packed(file)
    return name.removesuffix(next((end for end in kind.suffixes if name.endswith(end)), "")) if kind else name
