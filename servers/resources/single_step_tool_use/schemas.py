"""Checks a call's arguments against its tool's JSON Schema. The workers of the server import this."""

from __future__ import annotations

from typing import Any

from jsonschema.validators import validator_for
from referencing import Registry


def conforms(arguments: Any, schema: dict[str, Any]) -> bool:
    try:
        validator = validator_for(schema)
        validator.check_schema(schema)
        # An empty registry: a `$ref` to some address is an error, not a download.
        return bool(validator(schema, registry=Registry()).is_valid(arguments))
    except Exception:  # noqa: BLE001 (a schema that is none, or that the library cannot work with)
        return False
