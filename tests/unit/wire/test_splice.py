"""Adding fields to a JSON object without taking it apart."""

from __future__ import annotations

import json
import math
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym.wire.splice import SHORT, WrittenList, splice, splice_raw

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
OBJECTS = st.dictionaries(st.text(max_size=6), JSON, max_size=5)
# What a verifier adds: values that orjson can say.
ADDED = st.dictionaries(st.text(max_size=6), st.integers(-(2**53), 2**53) | st.text(max_size=8) | st.none(), max_size=4)


@given(body=OBJECTS, fields=ADDED)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_a_spliced_object_is_the_object_with_the_fields(body: dict[str, Any], fields: dict[str, Any]) -> None:
    spliced = splice(json.dumps(body).encode(), fields, keys=body.keys())
    assert json.loads(spliced) == {**body, **fields}


@given(body=OBJECTS, fields=ADDED)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_no_key_stands_there_twice(body: dict[str, Any], fields: dict[str, Any]) -> None:
    spliced = splice(json.dumps(body).encode(), fields, keys=body.keys())
    pairs: list[tuple[str, Any]] = json.loads(spliced, object_pairs_hook=list)
    assert len({name for name, _ in pairs}) == len(pairs)


@pytest.mark.parametrize("body", [b"{}", b" { } \n", b'{"a":1}', b'{"a": 1}\n', b'{\n  "a" : [1, 2]\n}\t\r\n'])
def test_white_space_around_a_body_does_no_harm(body: bytes) -> None:
    keys = json.loads(body).keys()
    assert json.loads(splice(body, {"b": 2}, keys=keys)) == {**json.loads(body), "b": 2}


def test_what_was_there_stays_byte_for_byte() -> None:
    body = b'{"big":123456789012345678901234567890,"float":1.10,"text":"\\u00e9 \xc3\xa9"}'
    assert splice(body, {"reward": 1.0}, keys={"big", "float", "text"}) == body[:-1] + b',"reward":1.0}'


def test_a_field_that_is_there_is_replaced_and_big_integers_are_kept() -> None:
    body = b'{"reward":0.5,"big":123456789012345678901234567890}'
    spliced = splice(body, {"reward": 1.0}, keys={"reward", "big"})
    assert spliced == b'{"big":123456789012345678901234567890,"reward":1.0}'


@pytest.mark.parametrize("size", [10, SHORT - 20, SHORT + 20], ids=["short", "nearly long", "long"])
@pytest.mark.parametrize("more", [{}, {"n": 1}, {"n": 1 << 80}, {1: "a"}, {"a": 2}], ids=str)
def test_an_end_follows_the_object_whatever_was_added(size: int, more: dict[Any, Any]) -> None:
    body = b'{"a":"%b"}' % (b"x" * size)
    spliced = splice(body, more, keys={"a"}, end=b"\n")
    assert spliced.endswith(b"}\n")
    assert spliced.count(b"\n") == 1
    assert json.loads(spliced) == {"a": "x" * size, **{str(name): value for name, value in more.items()}}


def test_nothing_to_add_is_the_same_bytes() -> None:
    body = b'{"a":1}'
    assert splice(body, {}, keys={"a"}) is body


def test_infinity_that_a_peer_wrote_is_not_read_as_null() -> None:
    spliced = splice(b'{"x":Infinity,"reward":0}', {"reward": 1}, keys={"x", "reward"})
    assert json.loads(spliced) == {"x": math.inf, "reward": 1}


def test_two_objects_become_one() -> None:
    assert splice_raw(b'{"a":1}', b'{"b":2}') == b'{"a":1,"b":2}'
    assert splice_raw(b"{}", b'{"b":2}', empty=True) == b'{"b":2}'


@given(
    fields=OBJECTS, parts=st.lists(st.lists(ADDED, max_size=3), max_size=5), name=st.sampled_from(["input", "", "é"])
)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_a_written_list_is_the_list_of_all_that_was_added(
    fields: dict[str, Any], parts: list[list[dict[str, Any]]], name: str
) -> None:
    fields = {key: repr(value) for key, value in fields.items()}
    written, added = WrittenList(), list[dict[str, Any]]()
    for part in parts:
        added += part
        written.up_to(added)
    assert written.write_into(fields, name) == orjson.dumps({**fields, name: added})
    assert bool(written) == bool(added)
