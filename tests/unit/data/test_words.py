"""Words of the JSON text are counted without writing it: the same count as by the plain definition."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym.data.word_count import count_words

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12) | st.text(
    ' \t\n\x0b\x1c\u2003\xa0,:"\\{}[]a', max_size=12
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)


def plainly(value: Any) -> int:
    return len(json.dumps(value).split())


@given(st.dictionaries(TEXT, VALUES, max_size=5))
def test_the_count_is_that_of_the_plain_definition(value: dict[str, Any]) -> None:
    assert count_words(value, orjson.dumps(value, option=orjson.OPT_SORT_KEYS)) == plainly(value)


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": [], "b": {}, "c": [[]]},
        {"a": "  two  blanks  each  ", "b": " "},
        {"a, b: c": 'say ": ", twice', "d": '\\": '},
        {"a": "a\u2003b\x1cc\nd\te\x85f"},
    ],
)
def test_blanks_commas_and_colons_within_text_count_as_text(value: dict[str, Any]) -> None:
    assert count_words(value, orjson.dumps(value)) == plainly(value)
