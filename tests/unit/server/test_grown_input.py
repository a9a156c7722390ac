"""A request that goes on where the last one ended is read as one that is parsed whole, or not taken for one."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym.server.grown_input import GrownInput, LastRequests
from gym.server.model import check_items
from gym.wire.failures import RolloutError

ITEMS: list[dict[str, Any]] = [{"role": "user", "content": "how much?"}, {"type": "reasoning", "summary": [1, 'é"\\']}]
MORE: list[dict[str, Any]] = [{"type": "function_call", "name": "add", "arguments": '{"input":[1]}', "call_id": "c"}]


def request(items: list[Any], **fields: Any) -> bytes:
    return orjson.dumps({"model": "m", "input": items, "tools": [{"type": "function"}], "temperature": 1.0, **fields})


def kept(raw: bytes, last: LastRequests | None = None) -> LastRequests:
    last = last or LastRequests()
    for _ in range(2):
        last.keep("r", raw, orjson.loads(raw))
    return last


def grown(last: LastRequests, raw: bytes) -> Any:
    return last.grow("r", raw, check_items)


def written(body: Any) -> Any:
    return json.loads(orjson.dumps(body))


def test_a_conversation_that_goes_on_says_what_it_says_when_it_is_parsed_whole() -> None:
    last = kept(request(ITEMS))
    items = list(ITEMS)
    for number in range(5):
        items += [{**MORE[0], "call_id": f"c{number}"}, {"type": "function_call_output", "output": "[]"}]
        raw = request(items)
        body = grown(last, raw)
        assert orjson.dumps(body) == raw
        assert list(body["input"]) == items
        assert list(body) == ["model", "input", "tools", "temperature"]


def test_the_same_request_again_is_known_whole() -> None:
    raw = request(ITEMS)
    assert orjson.dumps(grown(kept(raw), raw)) == raw


def test_the_first_request_of_a_rollout_is_not_kept() -> None:
    last, raw = LastRequests(), request(ITEMS)
    last.keep("r", raw, orjson.loads(raw))
    assert grown(last, request(ITEMS + MORE)) is None


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw.replace(b"how much", b"how many"),  # what was said is another
        lambda raw: raw.replace(b'"temperature":1.0', b'"temperature":0.5'),  # what stands behind is another
        lambda raw: raw.replace(b'"c"}]', b'"c"},]'),
        lambda raw: raw.replace(b'"c"}]', b'"c"}]]'),
        lambda raw: raw.replace(b'"c"}]', b'"c"}],"input":[1]'),
        lambda raw: raw.replace(b'"c"}]', b'"\xff"}]'),
        lambda raw: raw.replace(b'"c"}]', b'"\\ud800"}]'),
        lambda raw: raw.replace(b',{"type":"function_call"', b'{"type":"function_call"'),
        lambda raw: raw.replace(b'"c"}]', b'"' + b"c" * 20_000 + b'"}]'),  # long: it may hold arrays of token ids
        lambda raw: raw[:-1],
    ],
)
def test_anything_else_is_parsed_whole(change: Callable[[bytes], bytes]) -> None:
    assert grown(kept(request(ITEMS)), request(ITEMS + MORE))
    assert grown(kept(request(ITEMS)), change(request(ITEMS + MORE))) is None


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps({"input": ITEMS}).encode(),  # with blanks: where its input ends is not known
        request([]),
        orjson.dumps({"input": "a text"}),
        request(ITEMS, metadata={"input": [1]}),  # which of the two is the input?
        b'{"input":[{"role":"user"}],"input":[{"role":"user"}]}',
    ],
)
def test_a_request_whose_input_cannot_be_found_is_not_kept(raw: bytes) -> None:
    last = kept(raw)
    assert grown(last, raw) is None
    assert grown(last, raw.replace(b"]", b',{"role":"user"}]')) is None


def test_new_items_are_checked_as_others_and_named_by_their_place() -> None:
    with pytest.raises(RolloutError, match=r"input\[2\]: an object"):
        grown(kept(request(ITEMS)), request([*ITEMS, 7]))
    with pytest.raises(RolloutError, match=r"input\[3\]\.type: an item has a type"):
        grown(kept(request(ITEMS)), request([*ITEMS, *MORE, {"name": "x"}]))


def test_what_is_kept_is_bounded() -> None:
    raw = request(ITEMS)
    last = LastRequests(room=2 * len(raw))
    for key in ("a", "b", "c"):
        for _ in range(2):
            last.keep(key, raw, orjson.loads(raw))
    assert [key for key in ("a", "b", "c") if last.grow(key, raw, check_items)] == ["b", "c"]


READERS: list[Callable[[list[Any]], Any]] = [
    list,
    len,
    copy.deepcopy,
    copy.copy,
    repr,
    lambda items: [*items],
    lambda items: items + [1],
    lambda items: items[0],
    lambda items: items[-1:],
    lambda items: ITEMS[0] in items,
    lambda items: items == ITEMS + MORE,
    lambda items: items.index(MORE[0]),
    lambda items: [one for one in reversed(items)],
    lambda items: pickle.loads(pickle.dumps(items)),
    bool,
]


CHANGES: dict[str, tuple[Any, ...]] = {
    "append": (1,),
    "extend": ([1, 2],),
    "insert": (0, 1),
    "pop": (),
    "remove": (MORE[0],),
    "reverse": (),
    "clear": (),
    "__setitem__": (0, 5),
    "__delitem__": (0,),
    "__iadd__": ([1],),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_by_any_caller_changes_all_of_it(name: str) -> None:
    unread, whole = GrownInput(orjson.dumps(ITEMS)[1:-1], list(MORE)), copy.deepcopy(ITEMS + MORE)
    for one in (unread, whole):
        getattr(one, name)(*CHANGES[name])
    assert unread == whole
    assert orjson.dumps(unread) == orjson.dumps(whole)


@pytest.mark.parametrize("read", READERS)
def test_every_reader_finds_a_list_like_any_other(read: Callable[[list[Any]], Any]) -> None:
    unread = GrownInput(orjson.dumps(ITEMS)[1:-1], list(MORE))
    whole = copy.deepcopy(ITEMS + MORE)
    found, wanted = read(unread), read(whole)
    assert found == wanted
    assert orjson.dumps(unread) == orjson.dumps(whole)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(alphabet='a"\\[]{},:é', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["input", "a", '"']), inner, max_size=3)
    ),
    max_leaves=6,
)
MESSAGES = st.lists(st.builds(lambda value: {"role": "user", "content": value}, VALUES), max_size=3)


@given(st.lists(MESSAGES, min_size=1, max_size=4), st.dictionaries(st.sampled_from(["a", "z", "metadata"]), VALUES))
def test_any_conversation_is_read_as_it_is_parsed(turns: list[list[Any]], fields: dict[str, Any]) -> None:
    last = LastRequests()
    said: list[Any] = []
    for turn in turns:
        said += turn
        raw = orjson.dumps({"a": 1, "input": said, **fields})
        body = grown(last, raw)
        if body is None:
            last.keep("r", raw, orjson.loads(raw))
        else:
            assert written(body) == json.loads(raw)


@given(st.binary(max_size=12), st.integers(0, 200), st.integers(0, 12))
def test_a_damaged_body_is_never_read_as_another(noise: bytes, at: int, removed: int) -> None:
    raw = request(ITEMS + MORE)
    at %= len(raw)
    damaged = raw[:at] + noise + raw[at + removed :]
    try:
        body = grown(kept(request(ITEMS)), damaged)
    except RolloutError:
        return
    if body is not None:
        assert written(body) == json.loads(damaged)
