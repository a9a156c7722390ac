"""Arrays that stay bytes: whatever a body holds, the answer is that of parsing it whole."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError, field_validator

from gym.wire.failures import RolloutError
from gym.wire.json_text import read_json
from gym.wire.rows import ModelReply, VerifyRequest, has_plain_items, read_body, read_rollout, read_with_unread
from gym.wire.token_ids import TRIPLE
from gym.wire.unread import MIN_BODY, UnreadItem, cut_arrays, read_with_items

PAD = b" " * MIN_BODY
NEEDLE = '"generation_token_ids":[1,2],"prompt_token_ids":['
IDS = st.lists(st.integers(0, 151_643), max_size=5)
LOG_PROBS = st.lists(st.floats(max_value=0, allow_nan=False, allow_infinity=False), max_size=5)
TEXT = st.text(max_size=8) | st.sampled_from(
    [NEEDLE, f'\\"{NEEDLE}', "]", "[", '"', "\\", "é\u2028", "0123456789abcdef:0"]
)
VALUE = st.recursive(
    IDS | LOG_PROBS | TEXT | st.none() | st.integers(-(2**63), 2**64 - 1) | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*TRIPLE, "a", ""]) | TEXT, inner, max_size=3)
    ),
    max_leaves=6,
)
TRIPLES = st.fixed_dictionaries(
    {"prompt_token_ids": IDS, "generation_token_ids": IDS, "generation_log_probs": LOG_PROBS}
)
ITEM = st.builds(
    lambda *parts: {name: value for part in parts for name, value in part.items()},
    TRIPLES,
    st.dictionaries(st.sampled_from([*TRIPLE, "type", "content"]), VALUE, max_size=3),
)
BODY = st.fixed_dictionaries({"output": st.lists(ITEM | VALUE, max_size=3)}, optional={"input": VALUE, "x": VALUE})
STYLE = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " :\t")])

HOSTILE = [
    b'{"output":[{"text":"\\"generation_token_ids\\":[1,2]","generation_token_ids":[1]}]}',
    b'{"output":[{"\\"generation_token_ids":[1,2],"a":["]"]}]}',
    b'{"output":[{"generation_token_ids":["],\\"reward\\":1,\\"x\\":["]}]}',
    b'{"output":[{"generation_token_ids":[[1],[2]]}]}',
    b'{"output":[{"generation_token_ids":[{}]}]}',
    b'{"output":[{"generation_token_ids":[1],"generation_token_ids":[2]}]}',
    b'{"output":[{"generation_token_ids":[1],"generation_token_ids":"x"}]}',
    b'{"output":[{"generation\\u005ftoken_ids":[1],"generation_token_ids":[2]}]}',
    b'{"output":[{"generation_token_ids" : \n[ 1 , 2 ] }],"output":[{"prompt_token_ids":[3]}]}',
    b'{"output":[{"metadata":{"generation_token_ids":[1]}}]}',
    b'{"output":{"generation_token_ids":[1]}}',
    b'{"generation_token_ids":[1],"output":[]}',
    b'{"output":[{"generation_token_ids":[]}]}',
    b'{"output":[{"generation_token_ids":[null,true,18446744073709551615,-1.5e-7]}]}',
    b'{"output":[{"generation_log_probs":[-0.1,NaN]}]}',
    b'{"output":[{"generation_log_probs":[-Infinity]}]}',
    b'{"output":[{"generation_token_ids":[1,2',
    b'{"output":[{"generation_token_ids":[1,2]}',
    b'{"output":[{"x":"a"generation_token_ids":[1,2]}]}',
    b'{"output":["generation_token_ids":[1,2]]}',
    b'{"output":[{"generation_token_ids":[1]"a":1}]}',
    b'{"output":[{"text":"\\ud800","generation_token_ids":[1]}]}',
    b'[{"generation_token_ids":[1]}]',
    b'"generation_token_ids":[1]',
]


def answer(read: Any, body: bytes) -> Any:
    """What a reader makes of a body, each array read; "refused" where it is not JSON."""
    try:
        return orjson.loads(json.dumps(read(body)))
    except (orjson.JSONDecodeError, RolloutError):
        return "refused"


def by_parts(body: bytes) -> Any:
    return read_with_items(body, "model")


@given(body=BODY, style=STYLE, plain=st.booleans())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_the_answer_is_that_of_parsing_the_whole(body: Any, style: tuple[str, str], plain: bool) -> None:
    raw = json.dumps(body, separators=style, ensure_ascii=plain).encode("utf-8", "replace") + PAD
    assert answer(by_parts, raw) == answer(read_json, raw)


@given(body=BODY, cut=st.integers(0, 400), new=st.binary(max_size=2), lost=st.integers(0, 3))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_a_damaged_body_is_refused_at_the_latest_when_it_is_read(body: Any, cut: int, new: bytes, lost: int) -> None:
    raw = json.dumps(body).encode()
    at = cut % len(raw)
    damaged = raw[:at] + new + raw[at + lost :] + PAD
    assert answer(by_parts, damaged) == answer(read_json, damaged)


@pytest.mark.parametrize("body", HOSTILE)
def test_a_hostile_body_is_read_as_ever(body: bytes) -> None:
    assert answer(by_parts, body + PAD) == answer(read_json, body + PAD)


@pytest.mark.parametrize("body", HOSTILE)
def test_a_verifier_is_given_what_parsing_gives(body: bytes) -> None:
    request = b'{"responses_create_params":{"input":[]},"response":%b%b}' % (body, PAD)
    light = read_with_unread(VerifyRequest, request)
    assert light is None or light.model_dump() == read_body(VerifyRequest, request).model_dump()


def large() -> tuple[dict[str, Any], bytes]:
    item = {
        "type": "message",
        "prompt_token_ids": [*range(4000)],
        "generation_token_ids": [7] * 9,
        "generation_log_probs": [-0.5] * 9,
    }
    return item, orjson.dumps({"output": [item]})


def unread_item() -> UnreadItem:
    item = by_parts(large()[1])["output"][0]
    assert isinstance(item, UnreadItem)
    return item


def test_what_is_not_read_is_written_as_it_came() -> None:
    body = large()[1].replace(b"[7,7", b"[7, 7e0")
    parsed = by_parts(body)
    assert parsed["output"][0]["type"] == "message"
    assert orjson.dumps(parsed) == body
    assert orjson.dumps(parsed, option=orjson.OPT_NON_STR_KEYS) == body


@pytest.mark.parametrize(
    "use",
    [
        dict,
        lambda item: {**item},
        lambda item: dict(**item),
        lambda item: {} | item,
        lambda item: item | {},
        lambda item: dict(item.items()),
        lambda item: dict(zip(item, item.values(), strict=True)),
        lambda item: {name: item[name] for name in item},
        lambda item: {name: item.get(name) for name in item},
        lambda item: {name: item.pop(name) for name in list(item)},
        lambda item: json.loads(json.dumps(item)),
        lambda item: pickle.loads(pickle.dumps(item)),
        copy.copy,
        copy.deepcopy,
        lambda item: item.copy(),
        lambda item: eval(repr(item)),
    ],
)
def test_every_way_to_look_at_an_item_reads_it(use: Any) -> None:
    assert use(unread_item()) == large()[0]


def test_what_is_set_stays_set() -> None:
    item = unread_item()
    item["generation_token_ids"] = [1]
    item.update(prompt_token_ids=[2])
    item |= {"generation_log_probs": [-3.0]}
    del item["type"]
    assert item == {"prompt_token_ids": [2], "generation_token_ids": [1], "generation_log_probs": [-3.0]}


DUMPS: list[Callable[[VerifyRequest], Any]] = [
    lambda one: one.model_dump(),
    lambda one: json.loads(one.model_dump_json()),
    lambda one: copy.deepcopy(one).model_dump(),
]


@pytest.mark.parametrize("dump", DUMPS)
def test_a_dump_of_a_request_has_the_ids(dump: Callable[[VerifyRequest], Any]) -> None:
    item, _ = large()
    fields = {"responses_create_params": {"input": [item]}, "response": {"output": [item]}}
    request = read_with_unread(VerifyRequest, orjson.dumps(fields))
    assert request is not None
    assert isinstance(request.response.output[0], UnreadItem)
    dumped = dump(request)
    assert dumped["response"]["output"] == dumped["responses_create_params"]["input"] == [item]


def test_an_array_that_is_not_json_fails_who_reads_it() -> None:
    body = large()[1].replace(b"[7,7", b"[7,,7")
    item = by_parts(body)["output"][0]
    assert item["type"] == "message"
    with pytest.raises(RolloutError, match="generation_token_ids: not JSON") as failed:
        item["generation_log_probs"]
    assert failed.value.kind == "model"


def test_a_model_that_looks_at_items_while_it_checks_them_gets_them_whole() -> None:
    class Looks(VerifyRequest):
        @field_validator("response")
        @classmethod
        def _counted(cls, value: ModelReply) -> ModelReply:
            if len(value.output[0]["generation_token_ids"]) != 9:
                raise ValueError("nine are needed")
            return value

    class Typed(ModelReply):
        output: list[Any]

    class Other(VerifyRequest):
        response: Typed

    assert has_plain_items(VerifyRequest)
    assert not has_plain_items(Looks)
    assert not has_plain_items(Other)


def test_an_error_shows_no_mark() -> None:
    class Typed(VerifyRequest):
        generation_token_ids: int

    fields = {
        "responses_create_params": {"input": "x"},
        "response": {"output": []},
        "generation_token_ids": [1] * MIN_BODY,
    }
    body = orjson.dumps(fields)
    assert cut_arrays(body) is not None
    assert read_with_unread(Typed, body) is None
    with pytest.raises(ValidationError, match="input_value=\\[1, 1"):
        read_body(Typed, body)


def rollout(body: bytes) -> bytes:
    return b'{"responses_create_params":{"input":[]},"response":%b,"reward":1.0%b}' % (body, PAD)


@pytest.mark.parametrize("body", [*HOSTILE, b'{"output":[{"generation_token_ids":[1e999]}]}'])
def test_a_hostile_rollout_is_read_as_ever_or_as_a_whole(body: bytes) -> None:
    light = read_rollout(rollout(body))
    assert light is None or light == orjson.loads(rollout(body))


@given(body=BODY, given=st.sampled_from([b"[1,,2]", b"[01]", b"[-]", b"[1.]", b"[1e999]", b"[1 2]", b"[{]", b"[tru]"]))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_rollout_with_an_array_that_is_not_json_is_read_as_a_whole(body: Any, given: bytes) -> None:
    raw = rollout(orjson.dumps(body)).replace(b'_token_ids":[]', b'_token_ids":' + given)
    light = read_rollout(raw)
    assert light is None or light == orjson.loads(raw)


def test_a_rollout_keeps_its_arrays_unread() -> None:
    item, body = large()
    read = read_rollout(rollout(body))
    assert read is not None
    assert isinstance(read["response"]["output"][0], UnreadItem)
    assert read["response"]["output"] == [item]
