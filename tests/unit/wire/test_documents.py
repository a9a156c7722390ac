"""Documents of five formats as plain values, and which of them are bombs."""

from __future__ import annotations

from typing import Any

import pytest

from gym.wire.documents import MAX_DEPTH, BadDocument, parse, without_blank_ends


@pytest.mark.parametrize(
    ("xml", "value"),
    [
        ("<a/>", {"a": None}),
        ("<a> x </a>", {"a": "x"}),
        ('<a b="1"/>', {"a": {"@b": "1"}}),
        ('<a b="1">x</a>', {"a": {"@b": "1", "#text": "x"}}),
        ("<a><b>1</b><b>2</b><c/></a>", {"a": {"b": ["1", "2"], "c": None}}),
        ("<a>x<b/>y</a>", {"a": {"b": None, "#text": "xy"}}),
        ("<?xml version='1.0'?><!-- no --><a>&lt;<![CDATA[<b>]]></a>", {"a": "<<b>"}),
        ('<n:a xmlns:n="u">ü</n:a>', {"n:a": {"@xmlns:n": "u", "#text": "ü"}}),
    ],
)
def test_xml_becomes_plain_values(xml: str, value: Any) -> None:
    assert parse("xml", xml) == value


LAUGHS = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join(['*' + chr(97 + n)] * 9)}]\n" for n in range(9)
)
MERGES = "a: &a {x: 1}\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} {{<<: [{','.join(['*' + chr(97 + n)] * 9)}]}}\n" for n in range(9)
)


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("json", "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "nested deeper"),
        ("yaml", "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "nested deeper"),
        ("yaml", "[" * 100_000, "nested deeper"),
        ("yaml", "- " * 100_000, "nested deeper"),
        ("yaml", LAUGHS, "aliases"),
        ("yaml", MERGES, "aliases"),
        ("yaml", "a: &a [*a]", "an alias refers to a value that contains it"),
        ("toml", "a" + ".a" * (MAX_DEPTH + 1) + " = 1", "nested deeper"),
        ("xml", "<a>" * 100_000, "nested deeper"),
        ("xml", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "entities"),
        ("xml", '<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/hostname">]><a>&b;</a>', "entities"),
        ("json", "[" + "1," * 600_000 + "1]", "more than"),
        ("json", '"' + "x" * 2_000_001 + '"', "longer than"),
    ],
)
def test_a_bomb_is_a_bad_document(kind: str, text: str, said: str) -> None:
    with pytest.raises(BadDocument, match=said):
        parse(kind, text)


@pytest.mark.parametrize(
    ("kind", "text"),
    [("json", "[" * 100_000), ("toml", "a = " + "[" * 100_000), ("json", "9" * 10_000), ("yaml", "a: 2024-99-99")],
)
def test_what_the_libraries_object_to_is_an_exception_and_no_crash(kind: str, text: str) -> None:
    with pytest.raises((ValueError, RecursionError)):
        parse(kind, text)


def test_an_alias_that_is_used_soberly_is_read() -> None:
    assert parse("yaml", "a: &a {x: 1}\nb: *a\nc:\n  <<: *a\n  y: 2\n") == {
        "a": {"x": 1},
        "b": {"x": 1},
        "c": {"x": 1, "y": 2},
    }
    assert parse("yaml", "") is None


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("\n \r\na,b\r\n1, \r\n\t\n", "a,b\r\n1, \r\n"),
        ("  a", "  a"),
        ("\ufeffa\n", "a\n"),
        ("a ", "a "),
        ("\n\n", ""),
        ("", ""),
        ("\n" * 1_000_000 + "a" + "\n" * 1_000_000, "a\n"),
    ],
)
def test_only_whole_blank_lines_are_taken_off(text: str, left: str) -> None:
    assert without_blank_ends(text) == left
