"""What a body should have held at some place, in the words of JSON, as the model that reads it wants it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.errors import PydanticInvalidForJsonSchema

WORDS = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "true or false",
    "array": "list",
    "object": "object",
}
Schema = Mapping[str, Any]


def expected_at(model: type[BaseModel], place: Sequence[int | str]) -> str:
    """`text`, `list of integer`, `"a" or "b"`; nothing where the model does not say."""
    try:
        whole = model.model_json_schema()
    except PydanticInvalidForJsonSchema:
        return ""
    kinds: Schema = whole.get("$defs", {})
    schema: Schema = whole
    for part in place:
        schema = _inside(schema, part, kinds)
    return _words(schema, kinds)


def _inside(schema: Schema, part: int | str, kinds: Schema) -> Schema:
    """The schema one step further; a step that names a member of a union leads nowhere else."""
    for one in _alternatives(schema, kinds):
        if isinstance(part, int) and isinstance(one.get("items"), Mapping):
            return dict(one["items"])
        found = one.get("properties", {}).get(part, one.get("additionalProperties"))
        if isinstance(found, Mapping):
            return found
    return schema


def _words(schema: Schema, kinds: Schema) -> str:
    words = dict.fromkeys(_word(one, kinds) for one in _alternatives(schema, kinds) if one.get("type") != "null")
    return " or ".join(filter(None, words))


def _word(schema: Schema, kinds: Schema) -> str:
    choices = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
    if choices:
        return " or ".join(f'"{one}"' if isinstance(one, str) else str(one) for one in choices)
    word = WORDS.get(schema.get("type", ""), "")
    inner = _words(schema["items"], kinds) if word == "list" and isinstance(schema.get("items"), Mapping) else ""
    return f"{word} of {inner}" if inner else word


def _alternatives(schema: Schema, kinds: Schema) -> Iterator[Schema]:
    if "$ref" in schema:
        yield from _alternatives(kinds.get(str(schema["$ref"]).rpartition("/")[2], {}), kinds)
        return
    members = schema.get("anyOf") or schema.get("oneOf") or ()
    for one in members:
        yield from _alternatives(one, kinds)
    if not members:
        yield schema
