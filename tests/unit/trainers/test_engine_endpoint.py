"""The chat endpoint before a trainer's own engine: exact ids, for the episodes that are open."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from gym.http.pool import HttpClient
from gym.trainers.engine_endpoint import EngineEndpoint, make_prompt, read_calls
from gym.wire.token_ids import read_tokens
from tests.support.fake_engine import END, CharTokenizer, FakeEngine, params

Json = dict[str, Any]
TOKENIZER = CharTokenizer()
ASKED = {"role": "user", "content": "Hi"}
MORE = {"role": "user", "content": "So?"}
TOOL = {"type": "function", "function": {"name": "look"}}


def ids(text: str) -> list[int]:
    return TOKENIZER(text)["input_ids"]


def said(text: str, **fields: Any) -> Json:
    return {"role": "assistant", "content": text, "generation_token_ids": [5], **fields}


def test_a_conversation_without_ids_is_what_the_template_makes_of_it() -> None:
    parts = [{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]
    body = {"messages": [{"role": "user", "content": parts}], "tools": [TOOL]}
    assert make_prompt(TOKENIZER, body) == ids("<|system|>1 tools<|end|>\n<|user|>Hi<|end|>\n<|assistant|>")


def test_a_calls_arguments_reach_the_template_as_an_object() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{ "at":1 }'}}
    body = {"messages": [{"role": "assistant", "content": None, "tool_calls": [call]}]}
    assert make_prompt(TOKENIZER, body) == ids('<|assistant|>{"at":1}<|end|>\n<|assistant|>')


@pytest.mark.parametrize("cut", [False, True])
def test_what_was_drawn_stays_as_it_was_drawn(cut: bool) -> None:
    """The policy wrote two blanks, and a server on the way kept one. A turn that was cut off is closed."""
    drawn = ids("<|user|>Hi<|end|>\n<|assistant|>Well,  yes") + ([] if cut else [END])
    body = {"messages": [ASKED, said("Well, yes"), MORE], "required_prefix_token_ids": drawn}
    found = make_prompt(TOKENIZER, body)
    assert found == ids("<|user|>Hi<|end|>\n<|assistant|>Well,  yes<|end|>\n<|user|>So?<|end|>\n<|assistant|>")


def test_an_answer_of_others_after_the_last_one_drawn_is_new() -> None:
    drawn = ids("<|user|>Hi<|end|>\n<|assistant|>x  y<|end|>")
    other = {"role": "assistant", "content": "another"}
    body = {"messages": [ASKED, said("x y"), other, MORE], "required_prefix_token_ids": drawn}
    end = ids("\n<|assistant|>another<|end|>\n<|user|>So?<|end|>\n<|assistant|>")
    assert make_prompt(TOKENIZER, body) == drawn + end


def test_a_template_that_tells_earlier_turns_in_another_way_is_not_a_continuation() -> None:
    class Forgetful(CharTokenizer):
        def apply_chat_template(self, messages: Any, **given: Any) -> str:
            return super().apply_chat_template(messages[-2:], **given)

    body = {"messages": [ASKED, said("a"), MORE], "required_prefix_token_ids": [1, 2, 3]}
    assert make_prompt(Forgetful(), body) == ids("<|assistant|>a<|end|>\n<|user|>So?<|end|>\n<|assistant|>")


def call(arguments: str) -> str:
    return f'<tool_call>\n{{"name": "look", "arguments": {arguments}}}\n</tool_call>'


@pytest.mark.parametrize(
    ("text", "rest", "calls"),
    [
        ("nothing", "nothing", []),
        (f"Let me see.\n{call('{}')}", "Let me see.", ["{}"]),
        (call('{"a": {"b": 1}}') + "\n" + call('{"c": "}"}'), "", ['{"a":{"b":1}}', '{"c":"}"}']),
        ("<tool_call>{broken}</tool_call>", "<tool_call>{broken}</tool_call>", []),
        ('<tool_call>{"arguments": {}}</tool_call> ', '<tool_call>{"arguments": {}}</tool_call> ', []),
        ("<tool_call>[1]</tool_call>", "<tool_call>[1]</tool_call>", []),
        (f"<tool_call>{call('{}')}", "<tool_call>", ["{}"]),
        ('<tool_call>{"name": "look"}', '<tool_call>{"name": "look"}', []),
        ("<tool_call>{" * 50_000, "<tool_call>{" * 50_000, []),
    ],
)
def test_calls_are_read_and_what_is_none_stays_text(text: str, rest: str, calls: list[str]) -> None:
    found, made = read_calls(text)
    assert found == rest
    assert [one["function"]["arguments"] for one in made] == calls
    assert {one["function"]["name"] for one in made} <= {"look"}


async def ask(url: str, **fields: Any) -> tuple[int, Json]:
    http = HttpClient(asks_health=False)
    body = orjson.dumps({"model": "policy", "messages": [ASKED], **fields})
    reply = await http.request("POST", f"{url}/chat/completions", body=body, timeout=30)
    await http.aclose()
    found: Json = orjson.loads(reply.body)
    return reply.status, found


async def test_an_open_episode_is_answered_with_the_ids_that_were_drawn_and_a_closed_one_is_not() -> None:
    engine, given = FakeEngine(["yes"]), params(max_tokens=None, logprobs=None)
    endpoint = EngineEndpoint(TOKENIZER, engine.generate)
    await endpoint.start("127.0.0.1")
    try:
        with endpoint.episode(given, 100) as url, endpoint.episode(params(), 30) as other:
            status, reply = await ask(url)
            assert url != other
            short, cut = await ask(other, max_tokens=2)
        gone, _ = await ask(url)
    finally:
        await endpoint.aclose()
    prompt, made = ids("<|user|>Hi<|end|>\n<|assistant|>"), ids("yes<|end|>")
    assert (status, short, gone) == (200, 200, 404)
    assert read_tokens(reply) == (prompt, made, [-one / 1000 for one in made])
    choice = reply["choices"][0]
    assert (choice["message"], choice["finish_reason"]) == ({"role": "assistant", "content": "yes"}, "stop")
    assert (cut["choices"][0]["message"]["content"], cut["choices"][0]["finish_reason"]) == ("ye", "length")
    assert [(one.max_tokens, one.logprobs) for _, one in engine.asked] == [(100 - len(prompt), 0), (2, 1)]
    assert given == params(max_tokens=None, logprobs=None)  # the trainer's own are left as they were


async def test_a_prompt_that_leaves_no_room_is_refused_in_vllms_words() -> None:
    engine = FakeEngine(["yes"])
    endpoint = EngineEndpoint(TOKENIZER, engine.generate)
    await endpoint.start("127.0.0.1")
    with endpoint.episode(params(), 6) as url:
        status, reply = await ask(url)
    await endpoint.aclose()
    assert (status, engine.asked) == (400, [])
    assert "maximum context length is 6 tokens" in reply["error"]["message"]


async def test_calls_are_sent_as_calls_where_tools_are_offered() -> None:
    endpoint = EngineEndpoint(TOKENIZER, FakeEngine([call('{"at": 1}')]).generate)
    await endpoint.start("127.0.0.1")
    with endpoint.episode(params(), 1000) as url:
        _, with_tools = await ask(url, tools=[TOOL])
        _, without = await ask(url)
    await endpoint.aclose()
    (made,) = with_tools["choices"][0]["message"]["tool_calls"]
    assert (made["function"], with_tools["choices"][0]["finish_reason"]) == (
        {"name": "look", "arguments": '{"at":1}'},
        "tool_calls",
    )
    assert without["choices"][0]["message"]["content"] == call('{"at": 1}')
