"""Which document conforms to which schema, by format."""

from __future__ import annotations

import json
from typing import Any

import pytest
from conforming import coerce_rows, coerce_xml_value, conform_payload, conform_text, make_strict, unfenced

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "height": {"type": "number"},
        "member": {"type": "boolean"},
        "skills": {"type": "array", "items": {"type": "string"}},
    },
}
JSON = '{"name": "Ann", "age": 4, "height": 1.5, "member": true, "skills": ["a", "b"]}'
YAML = "name: Ann\nage: 4\nheight: 1.5\nmember: true\nskills: [a, b]\n"
TOML = 'name = "Ann"\nage = 4\nheight = 1.5\nmember = true\nskills = ["a", "b"]\n'
XML = (
    "<name>Ann</name><age>4</age><height>1.5</height><member>TRUE</member><skills><item>a</item><item>b</item></skills>"
)


def judge(text: str, kind: str, schema: Any = PERSON, *, strict: bool = False) -> str:
    return conform_text(text, json.dumps(schema), kind, True, strict)[0]


@pytest.mark.parametrize(("kind", "text"), [("json", JSON), ("yaml", YAML), ("toml", TOML)])
def test_a_document_that_says_it_all_conforms(kind: str, text: str) -> None:
    assert judge(text, kind) == ""
    assert judge(text.replace("1.5", "1"), kind) == ""
    assert judge(text.replace("4", "4.5"), kind) == "validation_error"
    assert judge(text.replace("true", '"yes"'), kind) == "validation_error"
    assert judge(text.replace("name", "title"), kind) == "validation_error"
    assert judge("[1", kind) == "parse_error"


def test_xml_conforms_once_its_texts_have_types() -> None:
    schema = {"type": "object", "properties": {"person": PERSON}}
    assert judge(f"<person>{XML}</person>", "xml", schema) == ""
    assert judge(f"<person>{XML.replace('4', 'four')}</person>", "xml", schema) == "validation_error"
    assert judge(f"<person>{XML.replace('Ann', '')}</person>", "xml", schema) == ""  # an empty text is a text
    assert judge(f"<person>{XML.replace('4', '')}</person>", "xml", schema) == "validation_error"
    assert judge(f"<person>{XML}", "xml", schema) == "parse_error"


def test_csv_conforms_row_by_row() -> None:
    columns = {name: PERSON["properties"][name] for name in ("name", "age")}
    schema = {"type": "array", "items": {"type": "object", "properties": columns}}
    assert judge("name,age\nAnn,4\nBo,5\n", "csv", schema) == ""
    assert judge("name,age\nAnn,four\n", "csv", schema) == "validation_error"
    assert judge("name,age\nAnn,4,5\n", "csv", schema) == "validation_error"
    assert judge("name\nAnn\n", "csv", schema) == "validation_error"
    assert judge("age,name\n", "csv", schema) == ""  # a table without rows
    assert judge("I do not know.", "csv", schema) == "validation_error"  # no table at all


def test_cells_are_read_by_the_type_of_their_column() -> None:
    columns = {"n": {"type": ["integer", "null"]}, "b": {"type": "boolean"}, "s": {"type": ["number", "string"]}}
    schema = {"items": {"properties": columns}}
    assert coerce_rows([{"n": "", "b": "1", "s": "x"}], schema) == [{"n": None, "b": True, "s": "x"}]
    assert coerce_rows([{"n": "7", "b": "no", "s": "2.5"}], schema) == [{"n": 7, "b": "no", "s": 2.5}]
    assert coerce_rows([{"other": "7"}], schema) == [{"other": "7"}]


@pytest.mark.parametrize(
    ("value", "schema", "expected"),
    [
        ({"item": "a"}, {"type": "array", "items": {"type": "string"}}, ["a"]),
        ({"item": ["1", "2"]}, {"type": "array", "items": {"type": "integer"}}, [1, 2]),
        (None, {"type": "array"}, []),
        ("7", {"type": "array", "items": {"type": "integer"}}, [7]),
        (None, {"type": "string"}, ""),
        (None, {"type": "integer"}, None),
        ("x", {"type": ["string", "null"]}, "x"),
        ("x", True, "x"),
    ],
)
def test_xml_values_take_the_shape_of_their_place(value: Any, schema: Any, expected: Any) -> None:
    assert coerce_xml_value(value, schema) == expected


def test_every_property_is_required_and_no_other_allowed() -> None:
    schema: Any = {"properties": {"a": {"properties": {"b": {}}}}, "anyOf": [{"properties": {"c": {}}}]}
    make_strict(schema, lists=False)
    assert schema["required"] == ["a"]
    assert schema["properties"]["a"]["additionalProperties"] is False
    assert "required" not in schema["anyOf"][0]
    make_strict(schema, lists=True)
    assert schema["anyOf"][0]["required"] == ["c"]


def test_lax_where_the_reference_is_and_not_in_strict_mode() -> None:
    number = {"type": "object", "properties": {"x": {"type": "number"}}}
    text = {"type": "object", "properties": {"x": {"type": "string"}}}
    for answer, kind, schema, lax, strict in (
        ('{"x": NaN}', "json", number, "", "parse_error"),
        ("x: 2024-01-05", "yaml", text, "validation_error", ""),
        ('```json\n{"x": 1}\n```', "json", number, "parse_error", ""),
        ('{"x": true}', "json", number, "validation_error", "validation_error"),
        ('\ufeff\n{"x": 1}', "json", number, "parse_error", ""),
        ('\r\n <?xml version="1.0"?><x>1</x>', "xml", number, "parse_error", ""),
        ("\n \t\r\nx\r\n1\r\n", "csv", {"items": number}, "validation_error", ""),
        ("x\n1\n  \n", "csv", {"items": number}, "validation_error", ""),
        ("\n\nx\n", "csv", {"items": number}, "validation_error", ""),
        ("```csv\n\nx\n1\n```", "csv", {"items": number}, "validation_error", ""),
        ("\n\nx,y\n1\n", "csv", {"items": number}, "validation_error", "validation_error"),
    ):
        assert judge(answer, kind, schema) == lax, answer
        assert judge(answer, kind, schema, strict=True) == strict, answer


def test_a_payload_is_checked_as_it_is() -> None:
    assert conform_payload(json.loads(JSON), json.dumps(PERSON), False) == ("", "")
    assert conform_payload(JSON, json.dumps(PERSON), False)[0] == "validation_error"
    assert conform_payload({}, "[", False)[0] == "schema_error"


@pytest.mark.parametrize("schema", [{"type": "odd"}, {"properties": 5}, {"$ref": "#/nowhere"}, [], "text", None, 5])
def test_a_schema_that_is_none_is_an_error_of_its_own(schema: Any) -> None:
    assert judge(JSON, "json", schema) in ("schema_error", "validation_error")


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("```json\n{}\n```", "{}\n"),
        (" ```\n{}\n``` ", "{}\n"),
        ("so ```\n{}\n```", "so ```\n{}\n```"),
        ("```\n{}\n```\n```\n{}\n```", "```\n{}\n```\n```\n{}\n```"),
        ("```", "```"),
        ("{}", "{}"),
    ],
)
def test_only_a_fence_around_everything_is_taken_off(text: str, inside: str) -> None:
    assert unfenced(text) == inside
