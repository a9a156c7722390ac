"""Columns of parquet as values of JSON: exact where Arrow's own are not, and without the nulls that parquet adds."""

from __future__ import annotations

import base64
import importlib
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from math import isfinite
from typing import Any, Final

import orjson

from gym.wire.json_text import repair_body

JSON_TYPE: Final = "arrow.json"
_NULL: Final = orjson.Fragment(b"null")  # stays, where None in a struct is left out
_LARGEST: Final = 1 << 63  # orjson writes integers below; larger ones are written as they are
_NANO: Final = 1000  # of a microsecond, the least that Python's times have


class ArrowValues:
    """`not_finite` counts the numbers that JSON has no word for: they become null."""

    def __init__(self) -> None:
        self._arrow = importlib.import_module("pyarrow")
        self._compute = importlib.import_module("pyarrow.compute")
        self.not_finite = 0
        self.errors: tuple[type[Exception], ...] = (ValueError, ArithmeticError, self._arrow.ArrowException)
        types = self._arrow.types
        self._readers: list[tuple[Callable[[Any], bool], Callable[[Any], list[Any]]]] = [
            (types.is_struct, self._read_structs),
            (types.is_map, self._read_maps),
            (types.is_nested, self._read_lists),
            (types.is_dictionary, lambda array: self.read(array.dictionary_decode())),
            (types.is_floating, self._read_floats),
            (types.is_decimal, lambda array: _each(array.to_pylist(), decimal_to_number)),
            (types.is_temporal, self._read_times),
            (_is_binary, lambda array: _each(array.to_pylist(), lambda value: base64.b64encode(value).decode())),
        ]

    def can_read(self, schema: Any) -> bool:
        """A pyarrow that does not know arrow.json would give texts."""
        plain = schema.remove_metadata().to_string(truncate_metadata=False)
        return hasattr(self._arrow, "json_") or JSON_TYPE not in plain

    def read(self, array: Any) -> list[Any]:
        """A value for each item of an Arrow array; None where it is null. Raises one of `errors`."""
        if isinstance(array.type, self._arrow.BaseExtensionType):
            return self._read_extension(array)
        for fits, reader in self._readers:
            if fits(array.type):
                return reader(array)
        return list(array.to_pylist())

    def _read_extension(self, array: Any) -> list[Any]:
        """`datasets` stores objects that differ from row to row as the type arrow.json, at any depth."""
        if array.type.extension_name == JSON_TYPE:
            return _each(array.storage.to_pylist(), text_to_json)
        return self.read(array.storage) if self._arrow.types.is_nested(array.storage.type) else list(array.to_pylist())

    def _read_structs(self, array: Any) -> list[Any]:
        """Parquet gives each struct all fields that any of them has, as null."""
        names = [field.name for field in array.type]
        columns = [self.read(array.field(place)) for place in range(len(names))]
        rows = zip(*columns, strict=True) if columns else [()] * len(array)
        return [
            {name: one for name, one in zip(names, row, strict=True) if one is not None} if there else None
            for there, row in zip(array.is_valid().to_pylist(), rows, strict=True)
        ]

    def _read_lists(self, array: Any) -> list[Any]:
        values, found, begin = self.read(array.flatten()), [], 0
        for length in self._compute.list_value_length(array).to_pylist():
            found.append(None if length is None else values[begin : begin + length])
            begin += length or 0
        return found

    def _read_maps(self, array: Any) -> list[Any]:
        places = array.offsets.to_pylist()
        first, length = places[0], places[-1] - places[0]
        keys = [_key_text(key) for key in self.read(array.keys.slice(first, length))]
        values = self.read(array.items.slice(first, length))
        return [
            _make_object(keys[begin - first : end - first], values[begin - first : end - first]) if there else None
            for there, begin, end in zip(array.is_valid().to_pylist(), places, places[1:], strict=False)
        ]

    def _read_floats(self, array: Any) -> list[Any]:
        values = list(array.to_pylist())
        finite = self._compute.is_finite(array.cast(self._arrow.float64()))
        lost = len(array) - array.null_count - (self._compute.sum(finite).as_py() or 0)
        self.not_finite += lost
        return [_NULL if value is not None and not isfinite(value) else value for value in values] if lost else values

    def _read_times(self, array: Any) -> list[Any]:
        """Arrow's own times of nanoseconds are other ones with pandas than without."""
        if getattr(array.type, "unit", "") != "ns":
            return _each(array.to_pylist(), time_to_text)
        counts = array.cast(self._arrow.int64()).to_pylist()
        coarse = self._arrow.array(_each(counts, lambda count: count // _NANO), self._in_microseconds(array.type))
        rests = [(count or 0) % _NANO for count in counts]
        return [
            None if value is None else time_to_text(value, rest)
            for value, rest in zip(coarse.to_pylist(), rests, strict=True)
        ]

    def _in_microseconds(self, kind: Any) -> Any:
        if self._arrow.types.is_timestamp(kind):
            return self._arrow.timestamp("us", kind.tz)
        return self._arrow.duration("us") if self._arrow.types.is_duration(kind) else self._arrow.time64("us")


def text_to_json(text: str) -> orjson.Fragment:
    """JSON as it was written: integers of any size, nulls that are meant. A `ValueError` where it is not JSON."""
    body = repair_body(text.encode())
    orjson.loads(body)
    return orjson.Fragment(body.replace(b"\n", b" ").replace(b"\r", b" "))  # within JSON, only ever between its parts


def decimal_to_number(value: Decimal) -> Any:
    """Never another number: what no float is stays text."""
    if value == value.to_integral_value():
        whole = int(value)
        return whole if -_LARGEST <= whole < _LARGEST else orjson.Fragment(str(whole).encode())
    near = float(value)
    return near if Decimal(repr(near)) == value else f"{value:f}"


def time_to_text(value: Any, nanoseconds: int = 0) -> str:
    if isinstance(value, timedelta):
        if not nanoseconds:
            return str(value)
        whole = value - timedelta(microseconds=value.microseconds)
        return f"{whole}.{value.microseconds:06}{nanoseconds:03}"
    if not nanoseconds:
        return str(value.isoformat())
    text = value.isoformat(timespec="microseconds")
    end = text.index(".") + 7
    return f"{text[:end]}{nanoseconds:03}{text[end:]}"


def _is_binary(kind: Any) -> bool:
    """Of four kinds; not every pyarrow has a word for each."""
    return "binary" in str(kind)


def _each(values: list[Any], change: Callable[[Any], Any]) -> list[Any]:
    return [None if value is None else change(value) for value in values]


def _key_text(key: Any) -> str:
    return key if isinstance(key, str) else orjson.dumps(key, default=str).decode()


def _make_object(keys: list[str], values: list[Any]) -> dict[str, Any]:
    if len(set(keys)) < len(keys):
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"a map has the key {twice!r} twice")
    return dict(zip(keys, values, strict=True))
