"""Rows of parquet files as JSON lines. Needs pyarrow, only when a data set has nothing else."""

from __future__ import annotations

import base64
import importlib
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from gym.data.row_parsing import AGENT_REF, PARAMS
from gym.errors import InfraError, UserError
from gym.programs import install_command

_BATCH = 1000
_OBJECTS = (PARAMS, AGENT_REF)


def write_rows(files: Iterable[Path], out: BinaryIO) -> int:
    """A batch in memory at a time. How many rows there were."""
    parquet, count = need_pyarrow(), 0
    for path in files:
        try:
            with parquet.ParquetFile(path) as table:
                for batch in table.iter_batches(batch_size=_BATCH):
                    for row in batch.to_pylist():
                        out.write(orjson.dumps(clean_row(row), default=_to_json, option=orjson.OPT_APPEND_NEWLINE))
                        count += 1
        except (ValueError, OSError) as error:  # pyarrow's own errors derive from these
            raise InfraError(f"{path.name} is not a parquet file that can be read: {error}") from error
    return count


def clean_row(row: dict[str, Any]) -> dict[str, Any]:
    """Parquet gives every item of a list all fields that any item has, as null; objects may be stored as text."""
    cleaned = dict(row)
    for key in _OBJECTS:
        value = cleaned.get(key)
        if isinstance(value, str) and value.lstrip().startswith("{"):
            value = orjson.loads(value)
        if key in cleaned:
            cleaned[key] = _without_nulls(value)
    return cleaned


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value


def _to_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return float(value) if isinstance(value, Decimal) else str(value)


def need_pyarrow() -> Any:
    try:
        return importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise UserError(
            "This split is stored as parquet, and pyarrow, which reads it, is not installed", install_command("pyarrow")
        ) from None
