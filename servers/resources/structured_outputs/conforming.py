"""Checks a text, or a tool call's payload, against a schema. The workers of the server import this."""

from __future__ import annotations

import csv
import json
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry

from gym.wire.documents import parse

MAX_MESSAGE = 200
FENCE = "```"
Verdict = tuple[str, str]  # kind of error and message; two empty texts: it conforms
FINE: Verdict = ("", "")


def conform_text(text: str, schema_str: str, kind: str, coerce_xml: bool, strict: bool) -> Verdict:
    schema, verdict = _read_schema(schema_str, strict)
    if verdict != FINE:
        return verdict
    text = unfenced(text) if strict else text
    try:
        value = parse(kind, text, strict=strict)
    except Exception as error:  # noqa: BLE001 (whatever a parser says about a model's text)
        return "parse_error", _describe(error)
    if kind == "csv" and not value and not _is_header(text, schema):
        return "validation_error", "ValidationError: no rows, and no header with the columns of the schema"
    return _validate(value, schema, kind, coerce_xml)


def _is_header(text: str, schema: Any) -> bool:
    """Any line of prose is a CSV header without rows; an empty table is one that has the right columns."""
    items = schema.get("items", schema) if isinstance(schema, dict) else {}
    columns = items.get("properties") if isinstance(items, dict) else None
    return not columns or set(columns) == set(next(csv.reader(text.strip().splitlines()), ()))


def conform_payload(payload: Any, schema_str: str, strict: bool) -> Verdict:
    schema, verdict = _read_schema(schema_str, strict)
    return verdict if verdict != FINE else _validate(payload, schema, "json", False)


def unfenced(text: str) -> str:
    """What is inside when a single code block is all there is."""
    bare = text.strip()
    head, newline, rest = bare.partition("\n")
    if head.startswith(FENCE) and newline and rest.endswith(FENCE) and FENCE not in rest[: -len(FENCE)]:
        return rest[: -len(FENCE)]
    return text


def _read_schema(schema_str: str, strict: bool) -> tuple[Any, Verdict]:
    try:
        schema = json.loads(schema_str)
        make_strict(schema, lists=strict)
    except (ValueError, TypeError, RecursionError) as error:
        return None, ("schema_error", _describe(error))
    return schema, FINE


def make_strict(schema: Any, *, lists: bool) -> None:
    """Every property is required and no other is allowed, except (unless `lists`) inside of lists such as anyOf."""
    if isinstance(schema, list) and lists:
        for one in schema:
            make_strict(one, lists=lists)
    if not isinstance(schema, dict):
        return
    if "properties" in schema:
        schema["required"] = list(schema["properties"])
        schema["additionalProperties"] = False
    for value in list(schema.values()):
        make_strict(value, lists=lists)


def _validate(value: Any, schema: Any, kind: str, coerce_xml: bool) -> Verdict:
    try:
        if kind == "xml" and coerce_xml:
            value = coerce_xml_value(value, schema)
        elif kind == "csv":
            value = coerce_rows(value, schema)
        Draft202012Validator.check_schema(schema)
        # An empty registry: a `$ref` to some address is an error, not a download.
        error = next(Draft202012Validator(schema, registry=Registry()).iter_errors(value), None)
    except SchemaError as schema_error:
        return "validation_error", f"SchemaError: {schema_error.message[:MAX_MESSAGE]}"
    except Exception as problem:  # noqa: BLE001 (a value or a schema that the library cannot work with)
        return "validation_error", _describe(problem)
    if error is None:
        return FINE
    return "validation_error", f"ValidationError: {error.json_path[:MAX_MESSAGE]}: {error.message[:MAX_MESSAGE]}"


def coerce_xml_value(value: Any, schema: Any) -> Any:
    """XML knows texts only; the schema says what they are. What fits nowhere stays, for the validator to see."""
    wanted = schema.get("type") if isinstance(schema, dict) else None
    if wanted == "object" and isinstance(value, dict):
        properties = schema.get("properties", {})
        return {key: coerce_xml_value(inner, properties.get(key)) for key, inner in value.items()}
    if wanted == "array":
        if isinstance(value, dict) and len(value) == 1:  # <skills><item>…</item></skills>
            value = next(iter(value.values()))
        found = value if isinstance(value, list) else [] if value is None else [value]
        return [coerce_xml_value(one, schema.get("items", {})) for one in found]
    if value is None and wanted == "string":
        return ""
    return coerce_scalar(value, wanted) if isinstance(value, str) else value


def coerce_rows(rows: list[dict[str, Any]], schema: Any) -> list[dict[str, Any]]:
    properties = schema.get("items", schema).get("properties", {})
    return [{key: _coerce_cell(cell, properties.get(key, {})) for key, cell in row.items()} for row in rows]


def _coerce_cell(cell: Any, schema: Any) -> Any:
    wanted = schema.get("type", "string")
    if not isinstance(wanted, list):
        return coerce_scalar(cell, wanted) if cell else cell
    if not cell and "null" in wanted:
        return None
    for one in wanted:
        read = coerce_scalar(cell, one) if cell else cell
        if one != "null" and (one == "string" or not isinstance(read, str)):
            return read
    return cell


def coerce_scalar(text: Any, wanted: Any) -> Any:
    try:
        if wanted == "integer":
            return int(text)
        if wanted == "number":
            return float(text)
    except (ValueError, TypeError):
        return text
    if wanted == "boolean" and isinstance(text, str):
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    return text


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:MAX_MESSAGE]}"
