"""The scripted policy: its rules, its shipped configuration, its recordings."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson
import pytest
import yaml

from gym.errors import GymError
from gym.http.pool import HttpClient
from gym.server.serve import load_app
from gym.server.testing import running
from gym.wire import items

HERE = Path(__file__).resolve().parents[1]
Body = dict[str, Any]
TOKENS = ("prompt_token_ids", "generation_token_ids", "generation_log_probs")


@pytest.fixture(scope="module")
def scripted() -> ModuleType:
    load_app(HERE / "app.py")
    return sys.modules["app"]


@pytest.fixture(scope="module")
def shipped() -> Body:
    """The fields of configs/scripted.yaml."""
    document = yaml.safe_load((HERE / "configs" / "scripted.yaml").read_text("utf-8"))
    fields: Body = document["policy_model"]["responses_api_models"]["scripted"]
    return fields


@asynccontextmanager
async def policy(module: ModuleType, fields: Body) -> AsyncIterator[Any]:
    """Asks the policy over HTTP: `await ask(params)` gives the reply, or the error."""
    http = HttpClient()
    async with running(module.Scripted.app(fields, name="policy_model")) as url:

        async def ask(params: Body) -> Body:
            reply = await http.request("POST", f"{url}/v1/responses", body=orjson.dumps(params), timeout=120)
            parsed: Body = orjson.loads(reply.body)
            return parsed

        try:
            yield ask
        finally:
            await http.aclose()


def tool(name: str, **properties: Body) -> Body:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "name": name, "parameters": schema, "strict": True}


def user(text: str) -> Body:
    return {"role": "user", "content": text}


async def play(ask: Any, params: Body, tools: dict[str, Any], steps: int = 12) -> tuple[list[tuple[str, Any]], str]:
    """The loop of an agent: (calls in order, the last text)."""
    talk = list(params["input"])
    calls: list[tuple[str, Any]] = []
    for _ in range(steps):
        output = (await ask({**params, "input": talk}))["output"]
        talk += output
        made = items.function_calls(output)
        if not made:
            return calls, items.last_assistant_text(output)
        for call in made:
            arguments = orjson.loads(call["arguments"])
            calls.append((call["name"], arguments))
            talk.append(
                items.function_call_output(call["call_id"], orjson.dumps(tools[call["name"]](arguments)).decode())
            )
    raise AssertionError(f"no end after {steps} steps: {calls}")


def rules(*written: Body, **more: Any) -> Body:
    return {"rules": list(written), **more}


async def test_the_shipped_rules_ask_for_the_weather_and_say_what_came_back(scripted: Any, shipped: Body) -> None:
    tools = {"get_weather": lambda given: {"city": given["city"], "weather_description": f"cold in {given['city']}"}}
    async with policy(scripted, shipped) as ask:
        for asked, city in [
            ("What is the weather in Paris?", "Paris"),
            ("I fly out soon. What is the weather in New York right now?", "New York"),
            ("Is it cold in Rio de Janeiro today?", "Rio"),
            ("What is the weather in Cape Town, and should I take a coat?", "Cape Town"),
        ]:
            params = {"input": [user(asked)], "tools": [tool("get_weather", city={"type": "string"})]}
            calls, said = await play(ask, params, tools)
            assert calls == [("get_weather", {"city": city})]
            assert said == f"cold in {city}"


@pytest.mark.parametrize("parallel", [True, False])
async def test_the_shipped_rules_work_the_counter(scripted: Any, shipped: Body, parallel: bool) -> None:
    count = 3

    def increment(given: Body) -> Body:
        nonlocal count
        count += given["count"]
        return {"success": True}

    tools = {"increment_counter": increment, "get_counter_value": lambda _: {"count": count}}
    params = {
        "input": [user("The counter starts at 3. Add 1, then add -2, then add 1, then read it.")],
        "tools": [tool("increment_counter", count={"type": "integer"}), tool("get_counter_value")],
        "parallel_tool_calls": parallel,
    }
    async with policy(scripted, shipped) as ask:
        calls, said = await play(ask, params, tools)
    assert [given.get("count") for _, given in calls] == [1, -2, 1, None]
    assert said == "The counter stands at 3."


@pytest.mark.parametrize("parallel", [True, False])
async def test_the_shipped_rules_hand_in_the_value_of_every_synonym(
    scripted: Any, shipped: Body, parallel: bool
) -> None:
    tools = {
        "get_synonym_value": lambda given: {"synonym_value": sum(map(ord, given["synonym"]))},
        "extract_synonym_values": lambda _: {"success": True},
    }
    params = {
        "input": [
            user('Find the value of each synonym of warm: Blazing, Toasty. Then hand in all. "Warm" is not asked.')
        ],
        "tools": [tool("get_synonym_value"), tool("extract_synonym_values")],
        "parallel_tool_calls": parallel,
    }
    async with policy(scripted, shipped) as ask:
        calls, said = await play(ask, params, tools)
    assert calls == [
        ("get_synonym_value", {"synonym": "Blazing"}),
        ("get_synonym_value", {"synonym": "Toasty"}),
        ("extract_synonym_values", {"synonym_values": [711, 644]}),
    ]
    assert said


async def test_the_shipped_rules_choose_a_letter_that_depends_on_the_question_alone(
    scripted: Any, shipped: Body
) -> None:
    asked = [{"input": [user(f"Question {number}. A. x\nB. y\nAnswer in \\boxed{{}}.")]} for number in range(40)]
    async with policy(scripted, shipped) as ask:
        first = [items.output_text((await ask(params))["output"]) for params in asked]
        again = [items.output_text((await ask(params))["output"]) for params in asked]
    assert first == again
    assert set(first) == {f"\\boxed{{{letter}}}" for letter in "ABCD"}


async def test_without_a_rule_the_first_tool_is_called_with_arguments_that_fit_its_schema(scripted: Any) -> None:
    schema: dict[str, Body] = {
        "s": {"type": "string"},
        "e": {"enum": ["low", "high"]},
        "i": {"type": "integer", "minimum": 4},
        "n": {"anyOf": [{"type": "number"}, {"type": "null"}]},
        "b": {"type": "boolean"},
        "a": {"type": "array", "items": {"$ref": "#/$defs/P"}, "minItems": 2},
        "d": {"default": 7},
    }
    offered = tool("f", **schema)
    offered["parameters"]["$defs"] = {"P": {"type": "object", "properties": {"x": {"type": "integer"}}}}
    async with policy(scripted, {}) as ask:
        reply = await ask({"input": "go", "tools": [offered, tool("g")]})
        [call] = items.function_calls(reply["output"])
        after = await ask({"input": [user("go"), call, items.function_call_output("c", "1")], "tools": [offered]})
        plain = await ask({"input": "go"})
        forbidden = await ask({"input": "go", "tools": [offered], "tool_choice": "none"})
    arguments = orjson.loads(call["arguments"])
    assert arguments == {"s": "text", "e": "low", "i": 4, "n": 1, "b": True, "a": [{"x": 1}, {"x": 1}], "d": 7}
    for reply in (after, plain, forbidden):
        assert items.output_text(reply["output"]) == "Done."


async def test_the_first_rule_that_matches_decides(scripted: Any) -> None:
    written = rules(
        {"when": {"user": "hello", "system": "be rude"}, "say": "no"},
        {"when": {"user": "hello", "model": "other"}, "say": "never"},
        {"when": {"user": "(?i)hello (?P<who>\\w+)"}, "think": "greet {who}", "say": "Hello, {who}! {unknown} {x}"},
        {"say": "what?", "incomplete": "max_output_tokens"},
    )
    async with policy(scripted, written) as ask:
        greeted = await ask({"input": [user("Hello Ada")], "instructions": "be kind"})
        rude = await ask({"input": [user("hello")], "instructions": "be rude"})
        lost = await ask({"input": [user("bye")]})
    assert [item["type"] for item in greeted["output"]] == ["reasoning", "message"]
    assert greeted["output"][0]["summary"][0]["text"] == "greet Ada"
    assert items.output_text(greeted["output"]) == "Hello, Ada! {unknown} {x}"
    assert items.output_text(rude["output"]) == "no"
    assert (items.output_text(lost["output"]), lost["status"]) == ("what?", "incomplete")


async def test_conditions_on_tool_outputs_are_kept_apart(scripted: Any) -> None:
    written = rules(
        {"when": {"after": 2}, "say": "two"},
        {"when": {"output": "error: (?P<why>.*)"}, "say": "failed: {why}"},
        {"when": {"called": "f", "after": "tools"}, "say": "{output.list.1.deep} and {outputs.list}"},
        {"when": {"after": 0}, "say": "none"},
        {"say": "unfilled"},
    )
    call = items.function_call("f", "{}", call_id="c")

    def talk(*outputs: str) -> Body:
        made = [part for one in outputs for part in (call, items.function_call_output("c", one))]
        return {"input": [user("x"), *made]}

    async with policy(scripted, written) as ask:
        said = [
            items.output_text((await ask(params))["output"])
            for params in (
                talk(),
                talk("error: no disk"),
                talk('{"list":[1,{"deep":"yes"}]}'),
                talk("plain"),
                talk("a", "b"),
                {"input": [user("x"), call, items.function_call_output("c", "a"), user("y")]},
            )
        ]
    assert said == ["none", "failed: no disk", 'yes and [[1,{"deep":"yes"}]]', "unfilled", "two", "none"]


async def test_a_list_of_calls_is_made_once_and_values_keep_their_type(scripted: Any) -> None:
    written = rules(
        {
            "when": {"user": "(?P<n>\\d[\\d,]*) (?P<x>[\\d.]+) (?P<j>\\{.*\\})"},
            "call": [
                {"name": "f", "arguments": {"n": "{n:int}", "x": "{x:float}", "deep": [{"j": "{j:json}"}], "fixed": 5}},
                {"name": "g", "arguments": {"text": "n={n}", "s": "{n:str}"}},
            ],
        },
        {"say": "done"},
    )
    async with policy(scripted, written) as ask:
        seen, said = await play(
            ask, {"input": [user('1,200 2.5 {"a": [1]}')]}, {"f": lambda _: "ok", "g": lambda _: "ok"}
        )
        unfit = await ask({"input": [user('1 2.5.5 {"a": [1]}')]})
    assert seen == [
        ("f", {"n": 1200, "x": 2.5, "deep": [{"j": {"a": [1]}}], "fixed": 5}),
        ("g", {"text": "n=1,200", "s": "1,200"}),
    ]
    assert said == items.output_text(unfit["output"]) == "done"


async def test_a_rule_can_fail_and_so_can_the_fallback(scripted: Any) -> None:
    async with policy(scripted, rules({"when": {"user": "boom"}, "fail": "as asked"}, fallback="error")) as ask:
        failed = await ask({"input": "boom"})
        unmatched = await ask({"input": "quiet"})
    assert failed["error"]["message"] == "as asked"
    assert "no rule fits: 'quiet'" in unmatched["error"]["message"]
    assert (unmatched["error"]["kind"], unmatched["error"]["retryable"]) == ("model", False)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"wen": {}, "say": "x"}, r"rules\[0\]: `wen` is not known; did you mean `when`"),
        ({"when": {"usr": "x"}, "say": "x"}, "`usr` is not known; did you mean `user`"),
        ({"when": {"user": "("}, "say": "x"}, r"rules\[0\]: .*unterminated subpattern"),
        ({"when": {"user": "(?P<city>x)"}, "say": "{ciyt}"}, "`{ciyt}`: nothing is called `ciyt`; did you mean `city`"),
        ({"say": "{nothing.deep}"}, "`{nothing.deep}`: nothing is called `nothing`"),
        ({"when": {}}, "a rule does something"),
        ({"for_each": "x", "say": "y"}, "which is missing"),
        ({"call": {"nam": "f"}}, "a call is"),
        ({"call": {"name": "f", "args": {}}}, "`args` is not known"),
        ("x", "a rule is a mapping"),
    ],
)
def test_a_mistake_in_a_rule_is_reported_at_the_start(scripted: Any, rule: Any, words: str) -> None:
    with pytest.raises(GymError, match=words):
        asyncio.run(scripted.Scripted.app({"rules": [rule]}, name="m").start())


async def test_latency_is_waited_for_and_usage_counts_words(scripted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def note(seconds: float) -> None:
        waited.append(seconds)

    server = (await start(scripted, {"latency_seconds": 0.25})).server
    monkeypatch.setattr(scripted.asyncio, "sleep", note)
    reply = await server.respond({"input": [user("four words are here")]})
    assert waited == [0.25]
    assert (reply["usage"]["input_tokens"], reply["usage"]["output_tokens"]) == (4, 1)


async def start(module: ModuleType, fields: Body) -> Any:
    app = module.Scripted.app(fields, name="m")
    await app.start()
    return app


class Real:
    """A model to record: counts its calls, makes new ids every time."""

    def __init__(self) -> None:
        self.asked: list[Body] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for phase in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{phase}.complete"})
            return
        body = orjson.loads((await receive())["body"])
        self.asked.append({**body, "authorization": dict(scope["headers"]).get(b"authorization")})
        reply = orjson.dumps(self._answer(body, scope["path"]))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": reply})

    def _answer(self, body: Body, path: str) -> Body:
        if path.endswith("/chat/completions"):
            message = {"role": "assistant", "content": f"chat {len(self.asked)}"}
            return {"id": "c", "model": "real", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
        talk = body["input"]
        called = any(item.get("type") == "function_call" for item in talk if isinstance(item, dict))
        item = items.message(f"reply {len(self.asked)}") if called else items.function_call("f", '{"a":1}')
        return items.response([items.reasoning("hm"), item], model="real")


def recording_fields(path: Path, url: str = "", **more: Any) -> Body:
    fields: Body = {"mode": "replay", "recording": str(path)}
    if url:
        fields |= {
            "mode": "record",
            "upstream": {"base_url": f"{url}/v1", "model": "real", "api_key": "sk-abcdef"} | more,
        }
    return fields


PARAMS: Body = {"input": [user("go")], "tools": [tool("f")], "temperature": 0.5}


async def test_a_recorded_run_replays_without_the_real_model(scripted: Any, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "run.jsonl"
    real = Real()
    async with running(real) as url, policy(scripted, recording_fields(path, url)) as ask:
        recorded = await play(ask, PARAMS, {"f": lambda _: {"x": 1}})
    assert [one["model"] for one in real.asked] == ["real", "real"]
    assert real.asked[0]["authorization"] == b"Bearer sk-abcdef"
    assert "sk-abcdef" not in path.read_text("utf-8")
    async with policy(scripted, recording_fields(path)) as ask:
        for _ in range(3):
            again = await play(ask, {**PARAMS, "model": "another name"}, {"f": lambda _: {"x": 1}})
            assert again == recorded


async def test_a_chat_endpoint_can_be_recorded_too(scripted: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    async with running(Real()) as url, policy(scripted, recording_fields(path, url, api="chat")) as ask:
        await ask({"input": "x"})
    async with policy(scripted, recording_fields(path)) as ask:
        assert items.output_text((await ask({"input": "x"}))["output"]) == "chat 1"


async def test_repeats_are_replayed_in_their_order_and_start_over(scripted: Any, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    call = items.function_call("f", "{}")
    asked = {"input": [user("x"), call, items.function_call_output(call["call_id"], "1")]}
    async with running(Real()) as url, policy(scripted, recording_fields(path, url)) as ask:
        for _ in range(2):
            await ask(asked)
    async with policy(scripted, recording_fields(path)) as ask:
        said = [items.output_text((await ask(asked))["output"]) for _ in range(5)]
    assert said == ["reply 1", "reply 2", "reply 1", "reply 2", "reply 1"]


async def test_ids_of_earlier_turns_do_not_change_what_was_asked(scripted: Any) -> None:
    digest = sys.modules["policy_recording"].request_digest
    canonical = sys.modules["policy_recording"].canonical_request

    def turn(call_id: str, text: Any = "hi") -> Body:
        said = items.message("I call.") | {"generation_token_ids": [1], "content": text}
        call = items.function_call("f", "{}", call_id=call_id)
        return {"input": [said, call, items.function_call_output(call_id, "out")], "model": call_id, "tools": []}

    parts: Any = [{"type": "output_text", "text": "hi", "annotations": [], "logprobs": None}]
    assert digest(canonical(turn("a"))) == digest(canonical(turn("b", parts)))
    assert digest(canonical(turn("a"))) != digest(canonical(turn("a", "other")))
    crossed = turn("a")
    crossed["input"][2]["call_id"] = "elsewhere"
    assert digest(canonical(turn("a"))) != digest(canonical(crossed))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"temperature": 0.9}, "first difference at temperature: recorded 0.5, asked 0.9"),
        ({"input": [user("stop")]}, 'at input[0].content: recorded "go", asked "stop"'),
        ({"input": [user("go"), user("more")]}, "first difference at input[1]: recorded nothing"),
        ({"tools": []}, "first difference at tools"),
    ],
)
async def test_a_request_that_was_not_recorded_names_the_closest_and_the_difference(
    scripted: Any, tmp_path: Path, change: Body, words: str
) -> None:
    path = tmp_path / "run.jsonl"
    async with running(Real()) as url, policy(scripted, recording_fields(path, url)) as ask:
        await ask(PARAMS)
    async with policy(scripted, recording_fields(path)) as ask:
        error = (await ask({**PARAMS, **change}))["error"]
    assert words in error["message"]
    assert (error["kind"], error["retryable"]) == ("model", False)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"mode": "replay"}, "not an absolute path"),
        ({"mode": "replay", "recording": "run.jsonl"}, "run.jsonl is not an absolute path"),
        ({"mode": "replay", "recording": "/nowhere/run.jsonl"}, "cannot be read: No such file"),
        ({"mode": "record", "recording": "/tmp/run.jsonl"}, "no upstream to ask"),
        ({"mode": "rulez"}, "mode: .*'rules', 'record' or 'replay'"),
    ],
)
def test_a_recording_that_cannot_be_used_is_reported_at_the_start(scripted: Any, fields: Body, words: str) -> None:
    with pytest.raises(GymError, match=words):
        asyncio.run(start(scripted, fields))


@pytest.mark.parametrize(
    ("content", "words"), [("", "holds nothing"), ("{}\n", ":1: not a line"), ("{", ":1: not a line")]
)
def test_a_broken_recording_is_named_with_its_line(scripted: Any, tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(content)
    with pytest.raises(GymError, match=words):
        asyncio.run(start(scripted, recording_fields(path)))


def test_a_whole_response_is_cut_into_the_turns_of_the_model(scripted: ModuleType) -> None:
    split = sys.modules["policy_answers"].split_turns
    call, output, said = items.function_call("go", "{}"), {"type": "function_call_output"}, items.message("done")
    assert split([call, output, said]) == [[call], [said]]
    thought = items.reasoning("hm")
    assert split([thought, call, call, output, output, call, output]) == [[thought, call, call], [call]]
    asked = {"role": "user", "content": "go on"}
    assert split([said, asked, said]) == [[said], [said]]
    assert split([]) == []


async def test_answers_of_a_file_come_turn_by_turn_then_the_judge_s(scripted: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    call = items.function_call("go", "{}")
    lines = [
        {"input": "first?", "turns": [[call], [items.message("one")]], "judge": ["[[A=B]]", "[[A!=B]]"]},
        {"input": [{"role": "user", "content": "second?"}], "turns": [[items.message("two")]]},
    ]
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    first = [{"role": "user", "content": [{"type": "input_text", "text": "first?"}]}]
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "ok"}
    async with policy(scripted, {"answers": str(path), "fallback": "done"}) as ask:
        assert (await ask({"input": first}))["output"][0]["name"] == "go"
        assert text_of(await ask({"input": [*first, call, output]})) == "one"
        agents = {"role": "system", "content": "You are an agent."}
        assert text_of(await ask({"input": [agents, *first, call, output]})) == "one"
        assert text_of(await ask({"input": "Are they the same?"})) == "[[A=B]]"
        assert text_of(await ask({"input": "And the other way?"})) == "[[A!=B]]"
        assert text_of(await ask({"input": "second?"})) == "two"
        assert text_of(await ask({"input": "Something else"})) == "Done."


def text_of(reply: Body) -> str:
    return items.output_text(reply["output"])


@pytest.mark.parametrize("line", ["no json", "{}", '{"input": "x"}', "[1]"])
def test_a_file_of_answers_that_says_something_else_is_refused(scripted: ModuleType, tmp_path: Path, line: str) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(line)
    with pytest.raises(GymError, match="a line is"):
        sys.modules["policy_answers"].Answers.load(path)


async def test_made_up_token_ids_are_contiguous_small_and_the_same_in_every_run(scripted: ModuleType) -> None:
    fields = {"return_token_id_information": True, "vocabulary_size": 50}
    talk: list[Any] = [{"role": "user", "content": "What is the weather in Oslo?"}]
    before: list[int] = []
    for turn in range(3):
        params = {"input": talk, "tools": [tool("look")] if turn < 2 else []}
        async with policy(scripted, fields) as ask:
            reply = await ask(params)
        async with policy(scripted, fields) as ask:
            other = await ask(params)
        last = reply["output"][-1]
        prompt, ids, log_probs = (last[key] for key in TOKENS)
        assert prompt[: len(before)] == before
        assert [other["output"][-1][key] for key in TOKENS] == [prompt, ids, log_probs]
        assert len(ids) == len(log_probs) == reply["usage"]["output_tokens"] > 0
        assert max(prompt + ids) < 50
        assert all(-2 <= one <= 0 for one in log_probs)
        before = prompt + ids
        talk += reply["output"]
        outputs = [items.function_call_output(call["call_id"], "ok") for call in items.function_calls(reply["output"])]
        talk += outputs or [{"role": "user", "content": f"And then? {turn}"}]
