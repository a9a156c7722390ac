"""A row inside the data set of a trainer: as JSON text in a column named `row`, or as the columns themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from gym.errors import UserError
from gym.wire.json_text import read_exact_json, write_json
from gym.wire.policy_endpoint import KEY, MODEL, URL

ROW: Final = "row"
PARAMS: Final = "responses_create_params"
_HINT: Final = "write the data set with pack_row(row): it puts the whole row into one column of text"


def pack_row(row: Mapping[str, Any]) -> dict[str, str]:
    """One column of text. In a column of objects, data set libraries give each row the fields of all others."""
    return {ROW: write_json(dict(row)).decode()}


def unpack_row(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The row that a trainer's example carries."""
    found = fields.get(ROW, fields)
    if isinstance(found, (str, bytes)):
        try:
            found = read_exact_json(found)
        except orjson.JSONDecodeError as error:
            raise UserError(f"the column {ROW!r} of an example is not JSON: {error}", _HINT) from None
    if not isinstance(found, Mapping) or not isinstance(found.get(PARAMS), Mapping):
        raise UserError(f"an example carries no row: {', '.join(map(str, fields)) or 'it has no fields'}", _HINT)
    return dict(found)


def put_endpoint(row: dict[str, Any], url: str | list[str], *, key: str = "", model: str = "") -> dict[str, Any]:
    """The row with the endpoint that its rollout asks; what is "" stays as the stack has it."""
    given = ((URL, url), (KEY, key), (MODEL, model))
    return row | {name: value for name, value in given if value}
