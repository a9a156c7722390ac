"""Token ids that add up, and those that do not: the same answer by their bytes and by their lists."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gym.wire.token_breaks import find_break
from gym.wire.unread import MIN_BODY, UnreadItem, read_with_items

IDS = st.lists(st.integers(0, 30), max_size=4)
STYLE = st.sampled_from([(",", ":"), (", ", ": "), (" ,", ":")])


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Mostly as they should be: each prompt has all that was before it, sometimes with a change."""
    said: list[Any] = []
    calls = []
    for _ in range(draw(st.integers(1, 4))):
        prompt = said + draw(IDS)
        if draw(st.integers(0, 3)) == 0:
            prompt = draw(st.sampled_from([prompt[:-1], prompt[1:], [*prompt, True], [1.0, *prompt], None, "x"]))
        generation = draw(IDS | st.none())
        calls.append({"prompt_token_ids": prompt, "generation_token_ids": generation, "generation_log_probs": [0.5]})
        said = [*(prompt if isinstance(prompt, list) else []), *(generation or [])]
    return calls


@given(calls=conversations(), style=STYLE)
@settings(max_examples=400, deadline=None, derandomize=True)
def test_bytes_and_lists_give_the_same_answer(calls: list[dict[str, Any]], style: tuple[str, str]) -> None:
    body = json.dumps({"output": calls}, separators=style).encode() + b" " * MIN_BODY
    assert find_break(read_with_items(body, "model")["output"]) == find_break(orjson.loads(body)["output"])


def unread(*arrays: tuple[bytes, bytes]) -> list[Any]:
    item = b'{"prompt_token_ids":%b,"generation_token_ids":%b}'
    body = b'{"output":[%b]}' % b",".join(item % pair for pair in arrays)
    output: list[Any] = read_with_items(body + b" " * MIN_BODY, "model")["output"]
    assert all(isinstance(one, UnreadItem) for one in output)
    return output


@pytest.mark.parametrize(
    ("arrays", "breaks"),
    [
        ([(b"[1,2]", b"[3]"), (b"[1,2,3,4]", b"[5]")], False),
        ([(b"[1,2]", b"[3]"), (b"[1,2,3]", b"[5]")], False),
        ([(b"[1,2]", b"[3]"), (b"[1,2,34]", b"[5]")], True),
        ([(b"[1,2]", b"[3]"), (b"[1,2]", b"[3]")], True),
        ([(b"[1,2]", b"[3]"), (b"[ 1, 2 ,3]", b"[5]")], False),
        ([(b"[]", b"[3]"), (b"[3,1]", b"[5]")], False),
        ([(b"[1]", b"[ ]"), (b"[2]", b"[5]")], False),
    ],
)
def test_numbers_are_compared_and_not_their_digits(arrays: list[tuple[bytes, bytes]], breaks: bool) -> None:
    assert (find_break(unread(*arrays)) is not None) == breaks


def test_what_adds_up_as_it_is_written_is_not_read() -> None:
    output = unread((b"[1,2]", b"[3]"), (b"[1,2,3,4]", b"[5]"))
    assert find_break(output) is None
    assert all(item.unread for item in output)
