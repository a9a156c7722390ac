"""What a missing field should have held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from gym.wire.expected import expected_at


class Inner(BaseModel):
    grade: Literal["a", "b"]
    level: Literal[3] = 3


class Outer(BaseModel):
    text: str
    count: int | None
    share: float
    sure: bool
    names: list[str]
    either: str | list[int]
    inner: Inner | None
    many: list[Inner]
    by_name: dict[str, Inner]
    anything: Any
    called: str = Field(alias="otherwise")


class Opaque(Outer):
    opaque: Callable[[], int]


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (("text",), "text"),
        (("count",), "integer"),
        (("share",), "number"),
        (("sure",), "true or false"),
        (("names",), "list of text"),
        (("either",), "text or list of integer"),
        (("inner",), "object"),
        (("inner", "grade"), '"a" or "b"'),
        (("inner", "level"), "3"),
        (("many",), "list of object"),
        (("many", 2, "grade"), '"a" or "b"'),
        (("by_name", "any", "grade"), '"a" or "b"'),
        (("anything",), ""),
        (("otherwise",), "text"),
    ],
)
def test_a_place_is_reported_in_the_words_of_json(place: tuple[int | str, ...], expected: str) -> None:
    assert expected_at(Outer, place) == expected


def test_a_model_that_no_schema_can_describe_says_nothing() -> None:
    assert expected_at(Opaque, ("text",)) == ""
