from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gym.render.yaml_text import escape_interpolation, to_json, to_yaml

SCALARS = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text()
TREES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=20), inner, max_size=3)
)
DOCUMENTS = st.dictionaries(st.text(max_size=20), TREES, max_size=4)


@given(DOCUMENTS)
@settings(max_examples=200, derandomize=True, deadline=None)
def test_json_reads_the_same_as_yaml(document: dict[str, Any]) -> None:
    text = to_json(document)
    assert yaml.safe_load(text) == document
    assert "\n" not in text


@pytest.mark.parametrize("text", ["\x7f", "\x85 next line", "\u2028", "\ufeff", "😀", "tab\t", "\x00", "${x}", "'\"\\"])
def test_json_reads_the_same_as_yaml_for_the_characters_that_yaml_treats_its_own_way(text: str) -> None:
    assert yaml.safe_load(to_json({"a": text})) == {"a": text}


@given(DOCUMENTS)
@settings(max_examples=100, derandomize=True, deadline=None)
def test_yaml_reads_back(document: dict[str, Any]) -> None:
    assert yaml.safe_load(to_yaml(document, "made by a test")) == document


def test_yaml_repeats_what_is_shared_instead_of_naming_it() -> None:
    shared = {"a": 1}
    assert "&" not in to_yaml({"x": shared, "y": shared})


@pytest.mark.parametrize(
    ("text", "escaped"),
    [("${a}", "\\${a}"), ("\\${a}", "\\\\\\${a}"), ("$a {b}", "$a {b}"), ("x ${a} ${b}", "x \\${a} \\${b}")],
)
def test_dollars_are_escaped_at_any_depth(text: str, escaped: str) -> None:
    assert escape_interpolation({"k": [text, {"k": text}], "n": 1}) == {"k": [escaped, {"k": escaped}], "n": 1}


def test_a_text_that_omegaconf_would_read_as_a_number_is_quoted() -> None:
    assert to_yaml({"a": "1e3", "b": "-2.5E-7", "c": "e3"}) == "a: '1e3'\nb: '-2.5E-7'\nc: e3\n"
