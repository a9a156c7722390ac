"""Recorded calls become sequences: a conversation goes on where its items and tokens do, and starts over where not."""

from __future__ import annotations

from typing import Any

import pytest

from gym.wire.call_sequences import sequences_of

Body = dict[str, Any]
SYSTEM = {"role": "system", "content": "You work."}


def chat(
    index: int, messages: list[Body], said: str, prompt: list[int] | None = None, made: list[int] | None = None
) -> Body:
    reply: Body = {
        "model": "m",
        "choices": [{"message": {"role": "assistant", "content": said}, "finish_reason": "stop"}],
    }
    reply["usage"] = {"prompt_tokens": 2, "completion_tokens": 1, "total_tokens": 3}
    call: Body = {"index": index, "status": 200, "dialect": "chat_completions", "reply": reply}
    call["request"] = {"model": "m", "messages": messages}
    if prompt and made:
        call |= {"prompt_token_ids": prompt, "generation_token_ids": made, "generation_log_probs": [-0.5] * len(made)}
    return call


def user(text: str) -> Body:
    return {"role": "user", "content": text}


def assistant(text: str) -> Body:
    return {"role": "assistant", "content": text}


def test_turns_of_one_conversation_are_one_sequence() -> None:
    first = chat(0, [SYSTEM, user("a")], "b", [1, 2], [3])
    second = chat(1, [SYSTEM, user("a"), assistant("b"), user("c")], "d", [1, 2, 3, 4], [5])
    (found,) = sequences_of([first, second])
    assert [one["role"] for one in found.input] == ["system", "user"]
    assert [one["role"] for one in found.output] == ["assistant", "user", "assistant"]
    assert [one.get("generation_token_ids") for one in found.output] == [[3], None, [5]]
    assert (found.calls, found.tokens) == ([0, 1], [1, 2, 3, 4, 5])
    assert found.usage is not None
    assert found.usage["total_tokens"] == 6


def test_a_sub_agent_and_its_caller_are_two_however_their_calls_lie() -> None:
    calls = [
        chat(0, [SYSTEM, user("a")], "b"),
        chat(1, [user("help")], "x"),
        chat(2, [SYSTEM, user("a"), assistant("b"), user("c")], "d"),
        chat(3, [user("help"), assistant("x"), user("more")], "y"),
    ]
    assert [one.calls for one in sequences_of(calls)] == [[0, 2], [1, 3]]


def test_a_summary_starts_over() -> None:
    calls = [chat(0, [SYSTEM, user("a")], "b"), chat(1, [SYSTEM, user("so far: a, b"), user("go on")], "c")]
    assert [one.calls for one in sequences_of(calls)] == [[0], [1]]


def test_the_same_texts_in_other_tokens_are_another_sequence() -> None:
    first = chat(0, [user("a")], "b", [1, 2], [3])
    drifted = chat(1, [user("a"), assistant("b"), user("c")], "d", [1, 2, 9, 4], [5])
    unknown = chat(2, [user("a"), assistant("b"), user("c")], "d")
    assert [one.calls for one in sequences_of([first, drifted, unknown])] == [[0], [1], [2]]


def test_a_fork_goes_on_from_the_longest_that_it_begins_with() -> None:
    calls = [
        chat(0, [user("a")], "b"),
        chat(1, [user("a"), assistant("b"), user("c")], "d"),
        chat(2, [user("a"), assistant("b"), user("other")], "e"),
    ]
    found = sequences_of(calls)
    assert [one.calls for one in found] == [[0, 1], [2]]
    assert len(found[1].input) == 3


def test_calls_without_an_answer_are_in_no_sequence() -> None:
    failed = {**chat(0, [user("a")], "b"), "status": 502, "reply": {"error": {}}}
    strange = {**chat(1, [user("a")], "b"), "dialect": "unheard"}
    empty = {**chat(2, [user("a")], "b"), "reply": {"choices": []}}
    assert sequences_of([failed, strange, empty]) == []


@pytest.mark.parametrize("thinks", [False, True])
def test_messages_go_on_though_thoughts_are_left_out_and_arguments_are_rewritten(thinks: bool) -> None:
    thought = [{"type": "thinking", "thinking": "hm", "signature": "s"}]
    use = {"type": "tool_use", "id": "t1", "name": "sh", "input": {"b": 1, "a": 2}}
    first = {"content": [*thought, {"type": "text", "text": "I look."}, use], "usage": {"input_tokens": 4}}
    again = {"type": "tool_use", "id": "t1", "name": "sh", "input": {"a": 2, "b": 1}}
    sent = [*(thought if thinks else []), {"type": "text", "text": "I look. "}, again]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "found"}]}
    asked = [user("a"), {"role": "assistant", "content": sent}, {"role": "user", "content": [result]}]
    calls = [
        {"index": 0, "status": 200, "dialect": "messages", "request": {"system": "s", "messages": [user("a")]}},
        {"index": 1, "status": 200, "dialect": "messages", "request": {"system": "s", "messages": asked}},
    ]
    calls[0]["reply"], calls[1]["reply"] = first, {"content": [{"type": "text", "text": "Done."}]}
    (found,) = sequences_of(calls)
    kinds = [one["type"] for one in found.output]
    assert kinds == ["reasoning", "message", "function_call", "function_call_output", "message"]
    assert [one["role"] for one in found.input] == ["system", "user"]


def test_responses_go_on_by_their_items() -> None:
    call = {"type": "function_call", "id": "c", "call_id": "c", "name": "sh", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "ok"}
    done = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}
    first: Body = {"index": 0, "status": 200, "dialect": "responses", "request": {"input": "a", "instructions": "i"}}
    first["reply"] = {"output": [call], "model": "m"}
    second = {**first, "index": 1, "reply": {"output": [done]}}
    second["request"] = {"instructions": "i", "input": [user("a"), call, output]}
    (found,) = sequences_of([first, second])
    assert found.output == [call, output, done]
