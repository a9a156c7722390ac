"""What the stamp of a rollout says about where it comes from, and when two stacks are the same."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gym.collect.provenance import (
    AttemptInfo,
    describe_headers,
    describe_rollout,
    differences,
    digest_stack,
    read_timing,
)
from gym.collect.run_replies import read_reply, rollout_line
from gym.collect.task_reader import Task
from gym.http.pool import Reply
from gym.wire.pieces import join_body

HEADERS = [
    (b"server-timing", b"seed;dur=1.5, model;dur=20.0, tools;dur=0.3, verify;dur=2.0"),
    (b"x-gym-sdk", b"0.9.1"),
    (b"x-gym-steps", b"model 20.0 3/4, tools 0.3"),
]
ROLLOUT: dict[str, Any] = {
    "responses_create_params": {"input": "?", "seed": 17},
    "response": {"model": "m-1", "output": [], "usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}},
    "reward": 1.0,
}


def test_a_stamp_reports_hops_model_tokens_seed_and_sdk() -> None:
    assert describe_headers(Reply(200, HEADERS, b"")) == {
        "hops": {"seed": 1.5, "model": 20.0, "tools": 0.3, "verify": 2.0},
        "sdk": "0.9.1",
        "steps": [["model", 20.0, 3, 4], ["tools", 0.3]],
    }
    assert describe_headers(Reply(200, [(b"x-gym-tool-errors", b"3")], b"")) == {"tool_errors": 3}
    assert describe_headers(Reply(200, [(b"x-gym-tool-errors", b"-1 many")], b"")) == {}
    assert describe_rollout(ROLLOUT) == {
        "model": "m-1",
        "tokens": {"input": 3, "output": 4},
        "seed": 17,
    }


def call(prompt: list[int], generation: list[int]) -> dict[str, Any]:
    return {"prompt_token_ids": prompt, "generation_token_ids": generation, "generation_log_probs": [0.0]}


@pytest.mark.parametrize(
    ("output", "found"),
    [
        ([], None),
        ([call([1, 2], [3]), {"type": "function_call_output"}, call([1, 2, 3, 4], [5])], None),
        ([call([1, 2], [3]), call([1, 2, 3], [])], None),
        ([call([1, 2], [3]), call([1, 2, 3], [4])], None),
        ([call([1, 2], [3]), call([1, 2, 4, 9], [5])], (2, 3, 4, 2, 1)),
        ([call([1, 2], [3]), call([1, 2], [3])], (2, 3, 2, 2, 1)),
        ([call([1], [2]), call([1, 2], [3]), call([9], [3]), call([8], [1])], (3, 3, 1, 0, 2)),
        (["text", None, {"generation_token_ids": "text"}, {"generation_token_ids": [1]}], None),
        ("text", None),
    ],
)
def test_a_call_that_does_not_begin_with_what_was_before_is_marked(output: Any, found: tuple[int, ...] | None) -> None:
    facts = describe_rollout({**ROLLOUT, "response": {"output": output}})
    names = ("step", "expected", "prompt", "common", "breaks")
    assert facts.get("tokens_break") == (dict(zip(names, found, strict=True)) if found else None)


@pytest.mark.parametrize(
    "parsed",
    [
        {},
        {"response": "text", "responses_create_params": None},
        {"response": {"model": 3, "usage": "much"}, "responses_create_params": {"seed": True}},
        {"response": {"usage": {}}, "responses_create_params": {"seed": 1 << 70}},
    ],
)
def test_what_a_reply_does_not_say_is_not_made_up(parsed: dict[str, Any]) -> None:
    facts = describe_rollout(parsed)
    assert not facts.get("tokens")
    assert describe_headers(Reply(200, [(b"server-timing", b"")], b"")) == {}
    assert set(facts) <= {"tokens"}


@pytest.mark.parametrize(
    ("value", "hops"),
    [
        (b"", {}),
        (b"cache", {}),
        (b"model;dur=x, verify;dur=2", {"verify": 2.0}),
        (b"\xff;dur=1", {"\xff": 1.0}),
    ],
)
def test_a_foreign_timing_header_does_no_harm(value: bytes, hops: dict[str, float]) -> None:
    assert read_timing(value) == hops


def test_the_stamp_stays_small_whatever_a_peer_says() -> None:
    """A resume looks for it in the last 4 KB of a line."""
    loud = {**ROLLOUT, "response": {"model": "m" * 10_000, "usage": {"input_tokens": 10**15}}}
    headers = [(b"server-timing", b"h" * 500 + b";dur=1," + b"x;dur=2," * 1000), (b"x-gym-sdk", b"9" * 5000)]
    task = Task(b"{}", b"}", "00000000000000aa:1", "math", 4, 1, "data.jsonl:5")
    reply = Reply(200, headers, orjson.dumps(loud))
    how = AttemptInfo(1, 1.0, 1.0, 0.0, "5tack", "a9ent", describe_headers(reply))
    line = join_body(rollout_line(read_reply(reply, "math"), task, how))
    assert len(line) - line.rindex(b'"_gym":{"key":') < 2000


def test_a_stack_has_one_digest_that_no_order_changes() -> None:
    assert digest_stack({"a": "1", "b": "2"}) == digest_stack({"b": "2", "a": "1"})
    assert digest_stack({"a": "1"}) != digest_stack({"a": "2"})
    assert digest_stack({"a": ""}) == digest_stack({}) == ""


def test_only_what_the_earlier_rollouts_could_have_used_makes_a_difference() -> None:
    assert differences({"a": "1"}, {"a": "1", "new": "2"}) == []
    assert differences({"a": "1"}, {"a": ""}) == differences({"a": ""}, {"a": "1"}) == []
    assert differences({"a": "1", "b": "2"}, {"b": "3"}) == [
        "a: is not in this stack",
        "b: has changed (its digest is another one)",
    ]
