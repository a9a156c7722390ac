"""A body in pieces says what the same body says in one."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings

from gym.wire.json_text import write_json
from gym.wire.pieces import JOINED, Pieces, body_size, join_body, to_body
from gym.wire.splice import splice, splice_pieces
from gym.wire.unread import MIN_BODY, UnreadItem, read_with_items, write_pieces
from tests.unit.wire.test_unread import BODY, large

LONG = "x" * JOINED


@given(body=BODY)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_pieces_are_what_is_written_in_one(body: Any) -> None:
    parsed = read_with_items(orjson.dumps(body) + b" " * MIN_BODY, "model")
    for value in (parsed, {"response": parsed, "reward": 1.0}, [parsed], parsed.get("output")):
        assert b"".join(write_pieces(value)) == orjson.dumps(value)


def test_an_unread_array_is_a_piece_and_stays_unread() -> None:
    item, body = large()
    parsed = read_with_items(body, "model")
    pieces = write_pieces({"response": parsed})
    assert orjson.dumps(item["prompt_token_ids"]) in pieces
    assert parsed["output"][0].unread
    assert orjson.loads(b"".join(pieces)) == {"response": {"output": [item]}}


def test_what_orjson_cannot_write_goes_with_unread_arrays_too() -> None:
    item, body = large()
    for text in ("", "\ud800"):
        value = {**read_with_items(body, "model"), "large": 2**70, "text": text}
        assert isinstance(value["output"][0], UnreadItem)
        in_pieces, whole = b"".join(write_pieces(value)), write_json(value)
        assert in_pieces == whole
        assert orjson.loads(whole)["output"] == [item]


def test_a_text_that_looks_like_a_mark_is_none() -> None:
    item, body = large()
    parsed = read_with_items(body, "model")
    parsed["output"].append({"text": '"0123456789abcdef:0"'})
    assert orjson.loads(b"".join(write_pieces(parsed)))["output"] == [item, {"text": '"0123456789abcdef:0"'}]


@pytest.mark.parametrize("end", [b"", b"\n"])
@pytest.mark.parametrize("text", ["short", LONG])
@pytest.mark.parametrize("fields", [{}, {"a": 1}, {"text": 2}, {"a": 1, "b": LONG}])
@pytest.mark.parametrize("space", [b"", b" \n"])
def test_pieces_of_a_splice_are_the_splice(space: bytes, fields: dict[str, Any], text: str, end: bytes) -> None:
    for row in ({"text": text}, {}):
        body = orjson.dumps(row) + space
        assert join_body(splice_pieces(body, fields, keys=row, end=end)) == splice(body, fields, keys=row) + end


def test_an_unread_array_is_a_piece_beside_a_short_row_too() -> None:
    item = {**large()[0], "prompt_token_ids": [*range(20_000)]}
    response = read_with_items(orjson.dumps({"output": [item]}), "model")
    array = response["output"][0].unread["prompt_token_ids"]
    spliced = splice_pieces(b'{"a":1}', {"response": response}, keys=("a",))
    assert isinstance(spliced, Pieces)
    assert any(piece is array for piece in spliced)
    assert orjson.loads(join_body(spliced)) == {"a": 1, "response": {"output": [item]}}


def test_only_a_long_body_is_in_pieces() -> None:
    assert to_body((b"a", memoryview(b"bc")[1:], b"")) == b"ac"
    assert to_body((LONG.encode() + b"x",)) == LONG.encode() + b"x"
    long = to_body((b"a", LONG.encode(), b""))
    assert isinstance(long, Pieces)
    assert (len(long), body_size(long), join_body(long)) == (2, JOINED + 1, b"a" + LONG.encode())
