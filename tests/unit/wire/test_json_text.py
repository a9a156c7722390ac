"""What is not text becomes text at one door, and everything else passes as it came."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from pydantic import BaseModel

from gym.wire.json_text import (
    SHORT,
    lacks,
    quick_find,
    read_exact_json,
    read_json,
    repair_body,
    write_any_json,
    write_json,
)

HALF = "\ufffd"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (rb'"\ud800"', HALF),
        (rb'"\uDC00x"', HALF + "x"),
        (rb'"\ud83d\ude00"', "\U0001f600"),
        (rb'"\ud83d\ud83d\ude00"', HALF + "\U0001f600"),
        (rb'"\\ud800"', r"\ud800"),
        (rb'"\\\ud800"', "\\" + HALF),
        (b'"\xff"', HALF),
        (b'"\xed\xa0\x80"', HALF * 3),
        ('"é \U0001f600"'.encode(), "é \U0001f600"),
    ],
)
def test_half_a_pair_and_stray_bytes_are_replaced(given: bytes, wanted: str) -> None:
    assert orjson.loads(repair_body(given)) == wanted
    assert read_json(given) == wanted


def test_a_body_that_is_text_is_the_very_same() -> None:
    for body in (b'{"a": [1, 1e400, NaN]}', rb'"\ud83d\ude00 \n \\ud800"', '"é"'.encode(), b"", b"\\"):
        assert repair_body(body) is body or repair_body(body) == body


def test_what_is_not_json_is_still_refused() -> None:
    for body in (b"{", rb'{"\ud800"', b"\xff"):
        with pytest.raises(orjson.JSONDecodeError):
            read_json(body)


class Field(BaseModel):
    text: str


@pytest.mark.parametrize("value", [{"a\ud800": ["\udfff", {"b": ("x\ud800",)}]}, "\ud800"])
def test_a_servers_own_half_pairs_are_written_as_text(value: Any) -> None:
    for written in (write_json(value), write_any_json(value)):
        assert HALF.encode() in written
        orjson.loads(written)
    assert orjson.loads(write_json([Field], default=lambda _: "\ud800" + "x")) == [HALF + "x"]


@pytest.mark.parametrize("text", ["", "\ud800"])
def test_integers_of_any_size_are_written(text: str) -> None:
    large = {"a": [-(2**63) - 1, 2**64], text: 1}
    assert json.loads(write_json(large)) == {"a": [-(2**63) - 1, 2**64], text and HALF: 1}
    assert json.loads(write_json([2**64, Field], default=lambda _: "x")) == [2**64, "x"]


def test_other_errors_of_writing_stay_errors() -> None:
    with pytest.raises(TypeError):
        write_json(object())


def test_an_exact_reader_keeps_large_integers_and_depth_and_refuses_what_is_not_json() -> None:
    assert read_exact_json('{"a": 123456789012345678901, "b": [1.5]}') == {"a": 123456789012345678901, "b": [1.5]}
    deep = b"[" * 300 + b"]" * 300
    assert read_exact_json(deep) == orjson.loads(deep)
    for wrong in (b"NaN", b"{", b"", b'"\\ud800"'):
        with pytest.raises(orjson.JSONDecodeError):
            read_exact_json(wrong)


@pytest.mark.parametrize("needle", [b"NaN", b"\\u"])
@pytest.mark.parametrize("filler", [b"x", b"N", b"\\", b"Na", b"1,"])
def test_what_is_there_is_never_said_to_be_lacking(needle: bytes, filler: bytes) -> None:
    for count in (0, 3, SHORT, 5 * SHORT):
        for before in (0, count // 2, count):
            body = filler * before + needle + filler * (count - before)
            assert not lacks(body, needle)


def test_rare_letters_are_looked_at_one_by_one() -> None:
    body = b"-0.25," * 5 * SHORT + b"Norway"
    assert lacks(body, b"NaN")
    assert quick_find(b"NaN" + body, b"NaN") is True
    assert quick_find(body + b"N" * SHORT, b"NaN") is None  # it would have to be searched
    assert not lacks(body + b"N" * SHORT, b"NaN")
    assert lacks(b"Nothing and None " * 9, b"NaN")
