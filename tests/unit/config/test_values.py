"""The value grammar of overrides."""

from __future__ import annotations

import pytest

from gym.config.values import GrammarError, closing_brace, parse_value, split_arguments


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", ""),
        ("null", None),
        ("Null", None),
        ("TRUE", True),
        ("false", False),
        ("-12", -12),
        ("1_000", 1000),
        ("007", "007"),
        ("1e3", 1000.0),
        ("2.50", 2.5),
        ("'1'", "1"),
        ('"a \\"b\\""', 'a "b"'),
        (r"'it\'s'", "it's"),
        (r"'a\n'", r"a\n"),
        ("http://x:8000/v1?a=b,c", "http://x:8000/v1?a=b,c"),
        ("[]", []),
        ("{}", {}),
        ("[1, two, 'three, four', null]", [1, "two", "three, four", None]),
        ("[a.yaml,b.yaml]", ["a.yaml", "b.yaml"]),
        ("{a: 1, b: {c: [x]}}", {"a": 1, "b": {"c": ["x"]}}),
        ("{url: http://x:1, 'k 2': y}", {"url": "http://x:1", "k 2": "y"}),
        ("[${a},${b.c}]", ["${a}", "${b.c}"]),
        ("[${oc.env:X,y}]", ["${oc.env:X,y}"]),
        (r"a\,b", "a,b"),
        (r"[a\,b]", ["a,b"]),
        (r"\${x}", r"\${x}"),
        ("a b  c", "a b  c"),
        ("${x}", "${x}"),
    ],
)
def test_a_value_is_read_as_hydra_reads_it(text: str, value: object) -> None:
    found = parse_value(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1", "`]` is missing at the end"),
        ("{a: 1", "`}` is missing at the end"),
        ("{a}", "`:` or `}` was expected before `}`"),
        ("[1,,2]", "a value is missing between two separators"),
        ("[1,]", "a value is missing"),
        ("'open", "the quote ' is never closed"),
        ("[1] x", "there is something after the closing `]`"),
        ("['a' 'b']", "`,` or `]` was expected before `'`"),
        ("[${a]", "`${` is never closed"),
        ("{: 1}", "a key is missing"),
        ("[" * 60 + "]" * 60, "nested deeper than 50 levels"),
    ],
)
def test_a_value_that_cannot_be_read_says_why(text: str, said: str) -> None:
    with pytest.raises(GrammarError) as caught:
        parse_value(text)
    assert said in str(caught.value)


def test_arguments_are_parted_at_commas_outside_quotes_and_brackets() -> None:
    assert split_arguments("A, 'x,y', ${b:1,2}, [1,2]") == ["A", "'x,y'", "${b:1,2}", "[1,2]"]


def test_the_brace_that_closes_is_found_past_nested_ones_and_quotes() -> None:
    text = "x${a:${b},'}'}y}"
    assert closing_brace(text, 1) == len(text) - 3
    assert closing_brace("${a", 0) == -1
