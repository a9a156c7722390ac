"""A library that owns the loop: what it does becomes a rollout, whatever it does. Over real sockets."""

from __future__ import annotations

import asyncio
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import openai
import orjson
import pytest

from gym.http.pool import HttpClient
from gym.server import Model
from gym.server.adapters.whole_agent import PlayTask, WholeAgent
from gym.server.testing import running
from gym.server.upstream import caller
from gym.wire import items
from gym.wire.failures import RolloutError
from tests.support.peers import calls, says, team

Json = dict[str, Any]
Policy = Callable[[Json, int], Json]
COUNT = {
    "type": "function",
    "name": "add",
    "description": "Adds to the counter.",
    "parameters": {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]},
}
PARAMS = {"input": [{"role": "user", "content": "count to three"}], "tools": [COUNT]}


def model_of(policy: Policy) -> tuple[Any, list[Json]]:
    """A model server that records sessions, and what it is asked."""
    asked: list[Json] = []

    class ListedModel(Model):
        takes_policies = True

        async def respond(self, params: Json) -> Json:
            context = caller.get()
            policy_given = context.policy if context else None
            asked.append({**params, "policy": policy_given})
            return policy(params, len(asked))

    return ListedModel.app({}, name="policy_model"), asked


def counts_then_talks(params: Json, turn: int) -> Json:
    reply = calls(("add", '{"count": 3}')) if turn == 1 else says("three")
    ids = [1, 2, 3] if turn == 1 else [1, 2, 3, 7, 1, 5, 6]
    reply["output"][-1] |= {"prompt_token_ids": ids, "generation_token_ids": [7, turn], "generation_log_probs": [0, -1]}
    return reply


async def loop_of_chat(task: Any, model: Any, tools: Any, *, most: int = 10) -> str:
    """What every library does, by the maker's own client."""
    async with openai.AsyncOpenAI(base_url=model.base_url, api_key=model.key) as client:
        messages: list[Any] = [{"role": "system", "content": "You count."}, *task.messages]
        offered: Any = [
            {"type": "function", "function": {"name": one.name, "parameters": one.parameters}} for one in tools
        ]
        for _ in range(most):
            reply = await client.chat.completions.create(model=model.name, messages=messages, tools=offered)
            said: Any = reply.choices[0].message
            messages.append(said.model_dump(exclude_none=True))
            if not said.tool_calls:
                return str(said.content)
            for call in said.tool_calls:
                tool = next(one for one in tools if one.name == call.function.name)
                text = await tool.call(call.function.arguments)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    return ""


class ChatPlayer(WholeAgent):
    async def play(self, task: Any, model: Any, tools: Any) -> Any:
        return await loop_of_chat(task, model, tools)


async def play(
    kind: type[WholeAgent],
    policy: Callable[[Json, int], Json] = counts_then_talks,
    row: Json | None = None,
    **fields: Any,
) -> tuple[int, Json, list[Json]]:
    app, asked = model_of(policy)
    async with team(lambda *_: {}, agent=kind, model=app, **fields) as one:
        status, rollout = await one.run(**{"responses_create_params": PARAMS, **(row or {})})
    return status, rollout, asked


async def test_what_a_library_does_becomes_a_verified_rollout_with_its_tokens() -> None:
    status, rollout, _ = await play(ChatPlayer, row={"odd": [1, None]})
    assert (status, rollout["reward"], rollout["odd"]) == (200, 1.0, [1, None])
    call, result, message = rollout["response"]["output"]
    assert (call["name"], orjson.loads(call["arguments"])) == ("add", {"count": 3})
    assert (call["generation_token_ids"], message["prompt_token_ids"]) == ([7, 1], [1, 2, 3, 7, 1, 5, 6])
    assert (result["type"], orjson.loads(result["output"])) == ("function_call_output", {"count": 3})
    assert items.output_text([message]) == "three"
    assert rollout["response"]["usage"]["total_tokens"] == 30
    assert rollout["response"]["other_sequences"] == []
    assert "trace" not in rollout


async def test_the_rollout_says_what_the_model_was_really_asked() -> None:
    _, rollout, _ = await play(ChatPlayer)
    asked = rollout["responses_create_params"]["input"]
    assert [items.item_text(one) for one in asked] == ["You count.", "count to three"]
    assert [one["name"] for one in rollout["responses_create_params"]["tools"]] == ["add"]


class ThreadPlayer(WholeAgent):
    """By the Responses API, in a thread."""

    def play(self, task: Any, model: Any, tools: Any) -> Any:
        with openai.OpenAI(base_url=model.base_url, api_key=model.key) as client:
            first: Any = client.responses.create(model=model.name, input=task.text)
            tools[0].wait(**orjson.loads(first.output[0].arguments))
            client.responses.create(model=model.name, input="And now?")
        return [items.message("at last")]


async def test_a_library_that_is_not_asynchronous_has_a_thread() -> None:
    status, rollout, _ = await play(ThreadPlayer)
    assert (status, rollout["reward"]) == (200, 1.0)
    assert [items.item_text(one) for one in rollout["response"]["output"]] == ["three", "at last"]
    first = rollout["response"]["other_sequences"][0]
    assert first["output"][0]["name"] == "add"  # another conversation: its tokens are not joined
    assert rollout["response"]["usage"]["total_tokens"] == 30


class StreamPlayer(WholeAgent):
    async def play(self, task: Any, model: Any, tools: Any) -> Any:
        async with openai.AsyncOpenAI(base_url=model.base_url, api_key=model.key) as client:
            stream = await client.chat.completions.create(model="any", messages=task.messages, stream=True)
            return "".join([one.choices[0].delta.content or "" async for one in stream if one.choices])


async def test_a_streamed_answer_is_recorded_whole_and_sampled_as_the_row_says() -> None:
    row = {"responses_create_params": {**PARAMS, "temperature": 0.25, "max_output_tokens": 77}, "expected_count": 0}
    status, rollout, asked = await play(StreamPlayer, lambda *_: says("streamed"), row)
    assert (status, rollout["reward"]) == (200, 1.0)
    assert items.output_text(rollout["response"]["output"]) == "streamed"
    assert (asked[0]["temperature"], asked[0]["max_output_tokens"]) == (0.25, 77)


@pytest.mark.parametrize(
    ("fields", "spent"),
    [
        ({"max_steps": 2}, "max_steps"),
        ({"max_tool_calls": 2}, "max_tool_calls"),
        ({"max_total_tokens": 30}, "max_total_tokens"),
    ],
)
async def test_budgets_hold_although_the_library_owns_the_loop(fields: Json, spent: str) -> None:
    status, rollout, asked = await play(ChatPlayer, lambda *_: calls(("add", '{"count": 1}')), **fields)
    assert status == 200
    assert rollout["response"]["truncated_by"] == spent
    assert len(asked) == (3 if spent == "max_tool_calls" else 2)
    assert rollout["reward"] == 0.0


class Deaf(WholeAgent):
    """Takes no refusal for an answer."""

    async def play(self, task: Any, model: Any, tools: Any) -> Any:
        async with openai.AsyncOpenAI(base_url=model.base_url, api_key=model.key) as client:
            while True:
                try:
                    await client.chat.completions.create(model=model.name, messages=task.messages)
                except openai.APIStatusError:
                    await asyncio.sleep(0)


async def test_a_library_that_does_not_heed_the_end_is_ended() -> None:
    status, rollout, asked = await play(Deaf, lambda *_: says("more"), {"expected_count": 0}, max_steps=3)
    assert (status, rollout["reward"], rollout["response"]["truncated_by"]) == (200, 1.0, "max_steps")
    assert len(asked) == 3


class Idle(WholeAgent):
    async def play(self, task: Any, model: Any, tools: Any) -> Any:
        await asyncio.Event().wait()


async def test_a_library_that_only_spends_time_is_ended_and_verified() -> None:
    status, rollout, _ = await play(Idle, play_seconds=0.1)
    assert (status, rollout["reward"], rollout["response"]["truncated_by"]) == (200, 0.0, "play_seconds")


async def test_a_failure_of_the_model_is_one_whatever_the_library_makes_of_it() -> None:
    def fails(params: Json, turn: int) -> Json:
        if turn == 2:
            raise RolloutError("model", "the GPU is gone", retryable=True)
        return says("more")

    status, failure, asked = await play(Deaf, fails)
    assert status == 502
    assert (failure["error"]["kind"], failure["error"]["message"]) == ("model", "the GPU is gone")
    assert len(asked) == 2


class BrokenWorld(ChatPlayer):
    """Its environment is lost while a tool is called."""

    async def call_tool(self, call: Any, rollout: Any) -> Any:
        raise RolloutError("lost_session", "its replica is gone", server="counter")


async def test_a_failure_of_the_environment_is_one_too() -> None:
    status, failure, _ = await play(BrokenWorld)
    assert (status, failure["error"]["kind"]) == (503, "lost_session")


class Strict(WholeAgent):
    """A library that cannot use what the model wrote: here the client's own parser raises."""

    async def play(self, task: Any, model: Any, tools: Any) -> Any:
        async with openai.AsyncOpenAI(base_url=model.base_url, api_key=model.key) as client:
            reply = await client.chat.completions.create(model=model.name, messages=task.messages)
            openai.BaseModel.model_validate_json(str(reply.choices[0].message.content))


async def test_what_a_library_cannot_read_of_the_policy_is_verified_and_says_why() -> None:
    status, rollout, _ = await play(Strict, lambda *_: says("not JSON"))
    assert (status, rollout["reward"]) == (200, 0.0)
    assert rollout["response"]["truncated_by"] == "library_error"
    assert "ValidationError" in rollout["reason"]
    assert items.output_text(rollout["response"]["output"]) == "not JSON"


class Careless(WholeAgent):
    async def play(self, task: Any, model: Any, tools: Any) -> Any:
        await loop_of_chat(task, model, tools)
        return task.row["missing"]


class Blaming(Careless):
    policy_errors = (KeyError,)


async def test_a_bug_of_the_author_is_a_failure_unless_it_is_known_to_be_the_policy_s() -> None:
    status, failure, _ = await play(Careless)
    assert (status, failure["error"]["kind"], failure["error"]["retryable"]) == (500, "agent", False)
    assert "KeyError: 'missing'" in failure["error"]["message"]
    assert "test_whole_agent.py" in failure["error"]["message"]
    status, rollout, _ = await play(Blaming)
    assert (status, rollout["reward"], rollout["response"]["reason"]) == (200, 1.0, "KeyError: 'missing'")


class Mute(WholeAgent):
    async def play(self, task: Any, model: Any, tools: Any) -> Any:
        return task.row["answer"]


@pytest.mark.parametrize(("answer", "word"), [(7, "a text, a list of items"), (None, "asked the model nothing")])
async def test_a_play_that_returns_nothing_of_use_is_a_failure(answer: Any, word: str) -> None:
    status, failure, _ = await play(Mute, row={"answer": answer})
    assert (status, failure["error"]["kind"]) == (500, "agent")
    assert word in failure["error"]["message"]


class Absent(WholeAgent):
    async def play(self, task: Any, model: Any, tools: Any) -> Any:
        openai.BaseModel.model_validate_json("{")


async def test_a_library_that_fails_before_the_model_has_spoken_is_not_a_fault_of_the_policy() -> None:
    status, failure, _ = await play(Absent)
    assert (status, failure["error"]["kind"]) == (500, "agent")
    assert "before the model had answered" in failure["error"]["message"]


class GivesUp(WholeAgent):
    """A client that gives up on a slow model: no fault of the policy."""

    async def play(self, task: Any, model: Any, tools: Any) -> Any:
        await loop_of_chat(task, model, tools)
        async with openai.AsyncOpenAI(base_url="http://127.0.0.1:9", api_key="x", max_retries=0) as client:
            await client.models.list()


async def test_a_client_that_gives_up_is_a_failure() -> None:
    status, failure, _ = await play(GivesUp)
    assert (status, failure["error"]["kind"], failure["error"]["retryable"]) == (500, "agent", True)
    assert "APIConnectionError" in failure["error"]["message"]


async def test_an_endpoint_of_the_rollout_s_own_is_what_the_library_asks() -> None:
    row = {"policy_base_url": "http://10.1.2.3:8000/v1", "policy_api_key": "sk-secret-key", "policy_model_name": "mine"}
    status, rollout, asked = await play(ChatPlayer, row=row)
    assert status == 200
    assert {(one["policy"].urls, one["policy"].key, one["policy"].model) for one in asked} == {
        (("http://10.1.2.3:8000/v1",), "sk-secret-key", "mine")
    }
    assert "sk-secret-key" not in orjson.dumps(rollout).decode()


async def test_a_trace_that_is_asked_for_comes_along_and_none_is_left_behind() -> None:
    app, _ = model_of(counts_then_talks)
    async with running(app) as url, team(lambda *_: {}, agent=ChatPlayer, model=app) as one:
        status, rollout = await one.run(responses_create_params=PARAMS, return_trace=True)
        assert (status, len(rollout["trace"]["calls"])) == (200, 2)
        status, _ = await one.run(responses_create_params=PARAMS)
        reply = await one.post("/v1/responses", PARAMS)
        assert items.output_text(orjson.loads(reply.body)["output"]) == "three"
        while (await read(one.http, f"{url}/sessions"))["sessions"]:
            await asyncio.sleep(0.01)


async def read(http: HttpClient, url: str) -> Json:
    reply = await http.request("GET", url, timeout=30)
    found: Json = orjson.loads(reply.body)
    return found


LATE: list[Any] = []
RELEASED, ENDED = threading.Event(), threading.Event()


class Stuck(WholeAgent):
    """A thread that goes on after its rollout was given up."""

    def play(self, task: Any, model: Any, tools: Any) -> Any:
        RELEASED.wait()
        uses: list[Callable[[], Any]] = [lambda: urllib.request.urlopen(f"{model.base_url}/models")]
        uses.append(lambda: tools[0].wait(count=3))
        for use in uses:
            try:
                use()
            except Exception as error:  # noqa: BLE001 (whatever it is, the test looks at it)
                LATE.append(error)
        ENDED.set()


async def test_a_thread_that_is_left_behind_reaches_neither_model_nor_environment() -> None:
    app, asked = model_of(counts_then_talks)
    async with team(lambda *_: {}, agent=Stuck, model=app, play_seconds=0.05) as one:
        status, rollout = await one.run(responses_create_params=PARAMS)
        assert (status, rollout["response"]["truncated_by"]) == (200, "play_seconds")
        RELEASED.set()
        await asyncio.to_thread(ENDED.wait)
    assert [type(one).__name__ for one in LATE] == ["HTTPError", "PlayEnded"]
    assert not asked
    LATE[0].close()


class Probing(WholeAgent):
    """Looks at its URL as a stranger would."""

    async def play(self, task: Any, model: Any, tools: Any) -> Any:
        http = HttpClient()
        try:
            found = []
            for path, key in (("/v1/models", "wrong"), ("/v1/files", model.key), ("/v1/models", model.key)):
                headers = [(b"authorization", f"Bearer {key}".encode())]
                found.append((await http.request("GET", model.root_url + path, headers=headers, timeout=30)).status)
            return str(found)
        finally:
            await http.aclose()


async def test_the_url_answers_its_key_and_model_calls_alone() -> None:
    _, rollout, _ = await play(Probing)
    assert items.output_text(rollout["response"]["output"]) == "[401, 404, 200]"


class McpPlayer(WholeAgent):
    """By the package `mcp`, as its own clients do."""

    async def play(self, task: PlayTask, model: Any, tools: Any) -> Any:
        import httpx2
        from mcp.client.session import ClientSession
        from mcp.client.streamable_http import streamable_http_client

        async with (
            httpx2.AsyncClient(headers=dict(task.mcp_headers)) as http,
            streamable_http_client(task.mcp_url, http_client=http) as streams,
            ClientSession(streams[0], streams[1]) as session,
        ):
            await session.initialize()
            listed = await session.list_tools()
            called = await session.call_tool(listed.tools[0].name, {"count": 3})
            return f"{listed.tools[0].name}: {called.content[0].text}"  # type: ignore[union-attr]


async def test_an_mcp_client_has_the_environment_s_tools() -> None:
    status, rollout, _ = await play(McpPlayer)
    assert (status, rollout["reward"]) == (200, 1.0)
    assert items.output_text(rollout["response"]["output"]) == 'add: {"count":3}'
