"""OpenEnv environments as games of text, with the real package: what each kind of failure is worth."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import WSMsgType, web
from app import OpenEnv
from lock.rules import secret_of

from gym.server.testing import ANSWER_SECONDS, Answered, Caller, running
from gym.wire.items import message

if TYPE_CHECKING:
    from real_environments import Line

pytest_plugins = ["real_environments"]
pytestmark = pytest.mark.asyncio
LOCK = {"observation_field": "text", "unpaid_steps": "none", "repeatable": True}
WORDS = {"action_field": "word", "observation_field": "text"}


def row(**reset: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": "x"}, "reset": reset}


@asynccontextmanager
async def playing(url: str, **fields: Any) -> AsyncIterator[Caller]:
    async with running(OpenEnv.app({"url": url, **fields}, name="openenv")) as at, Caller(at) as caller:
        yield caller


async def act(caller: Caller, *texts: str, **reset: Any) -> Answered:
    for text in texts:
        reply = await caller.post("/step", {**row(**reset), "response": {"output": [message(text)]}})
    return reply


async def verify(caller: Caller, *texts: str, **reset: Any) -> Answered:
    return await caller.post("/verify", {**row(**reset), "response": {"output": [message(one) for one in texts]}})


@asynccontextmanager
async def pretending(serve: Callable[[web.Request], Awaitable[web.WebSocketResponse]]) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/ws", serve)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def failure(reply: Answered) -> tuple[str, bool]:
    assert reply.status >= 422, reply.body
    assert "reward" not in reply.body
    return reply.body["error"]["kind"], reply.body["error"]["retryable"]


async def test_a_lock_is_opened_step_by_step(environments: str) -> None:
    secret = secret_of(7)
    wrong = [digit % 6 + 1 for digit in secret]
    async with playing(f"{environments}/lock", **LOCK) as caller:
        begun = await caller.post("/reset", row(seed=7, tries=4))
        assert begun.body["observation"][0]["content"].endswith("You have 4 tries.")
        first = (await act(caller, f'{{"digits": {wrong}}}')).body
        assert (first["reward"], first["terminated"], first["observation"][-13:]) == (0.0, False, "3 tries left.")
        last = (await act(caller, f'{{"digits": {secret}}}')).body
        assert (last["reward"], last["terminated"], last["observation"]) == (1.0, True, "It opens.")
        assert (await verify(caller, f'{{"digits": {secret}}}', seed=7)).body["reward"] == 1.0
        assert (await caller.get("/reverify_mode")).body == "stateless"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"digits": [1, 2]}', "digits: List should have at least 3 items"),
        ('{"digits": [0, 1, 7]}', "digits.0: Input should be greater than or equal to 1"),
        ('{"digits": [1, 2, 3], "force": true}', "force: Extra inputs are not permitted"),
        ("{}", "digits: Field required"),
        ("open", "it is not JSON"),
        ("[1, 2, 3]", "it is not a JSON object"),
        ('{"digits": NaN}', "it is not JSON"),
        ('{"digits": ["\\ud800", 1, 2]}', "it is not JSON"),
        ('{"digits": ' + "[" * 60 + "]" * 60 + "}", "nested more than 50 deep"),
        ('{"digits": ' + "[" * 600 + "]" * 600 + "}", "nested more than 50 deep"),
        ('{"digits": "' + "x" * (1 << 20) + '"}', "more than 1048576 bytes"),
    ],
)
async def test_what_the_schema_refuses_is_reported_and_costs_no_try(environments: str, text: str, said: str) -> None:
    async with playing(f"{environments}/lock", **LOCK) as caller:
        await caller.post("/reset", row(seed=7))
        step = (await act(caller, text)).body
        assert said in step["observation"]
        assert (step["reward"], step["terminated"]) == (0.0, False)
        assert "7 tries left" in (await act(caller, '{"digits": [6, 6, 6]}')).body["observation"]


async def test_an_action_over_which_the_environment_ends_the_session_ends_the_episode(environments: str) -> None:
    """openenv 0.10 cannot write down what a validator of an action raises, and hangs up."""
    async with playing(f"{environments}/odd", rewards="cumulative", **WORDS) as caller:
        await caller.post("/reset", row())
        assert (await act(caller, "pay:half")).body["reward"] == 0.5
        step = (await act(caller, "forbidden")).body
        assert (step["reward"], step["terminated"]) == (0.0, True)
        assert "hung up over it" in step["info"]["reason"]
        assert (await verify(caller, "pay:half", "forbidden")).body["reward"] == 0.5


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("raise:no power", "EXECUTION_ERROR: no power"),
        ("own", "VALIDATION_ERROR: Invalid message: word: Input should be a valid integer"),
        ("mute", "EXECUTION_ERROR: Unable to serialize"),
        ("later", "its server cannot write down how"),
        ("pay:text", "returned the reward '1'"),
        ("end:nan", "paid null for the last step, which NaN"),
        ("end:infinity", "paid null for the last step"),
        ("end:nothing", "Where it means nothing, say so: unpaid_steps: all"),
        ("done:later", "says done: 'later'"),
    ],
)
async def test_the_environments_own_faults_are_failures_and_no_reward(environments: str, word: str, said: str) -> None:
    async with playing(f"{environments}/odd", **WORDS) as caller:
        await caller.post("/reset", row())
        reply = await act(caller, word)
        assert failure(reply) == ("resources", False)
        assert said in reply.body["error"]["message"]
    async with playing(f"{environments}/odd", **WORDS) as caller:
        assert failure(await verify(caller, "hello", word)) == ("resources", False)


async def test_a_step_without_a_reward_is_what_the_configuration_says(environments: str) -> None:
    for allowed, wanted in (("none", False), ("before_the_end", True), ("all", True)):
        async with playing(f"{environments}/odd", unpaid_steps=allowed, **WORDS) as caller:
            assert ("reward" in (await verify(caller, "pay:nan", "end:half")).body) is wanted
            paid = (await verify(caller, "pay:one", "end:nothing")).body
            assert paid.get("reward") == (1.0 if allowed == "all" else None)


@pytest.mark.parametrize(("rewards", "total"), [("per_step", 2.25), ("cumulative", 0.5), ("final", 0.5)])
async def test_rewards_mean_what_the_configuration_says(environments: str, rewards: str, total: float) -> None:
    """The reset has paid as well; a step that pays nothing leaves a sum as it is."""
    async with playing(f"{environments}/odd", rewards=rewards, **WORDS) as caller:
        reply = await verify(caller, "pay:true", "pay:half", "pay:nothing", "end:half", paid=0.25)
    assert reply.body["reward"] == total


async def test_messages_of_its_own_may_be_shown_to_the_policy(environments: str) -> None:
    async with playing(f"{environments}/odd", bad_action_messages=["^no such"], **WORDS) as caller:
        await caller.post("/reset", row())
        step = (await act(caller, "raise:no such word")).body
        assert step["observation"] == "That action cannot be: no such word"
        assert failure(await act(caller, "raise:no power")) == ("resources", False)


async def test_a_service_that_goes_in_mid_run_is_a_failure_to_be_retried(environments: str, line: Line) -> None:
    async with playing(f"{line.url}/odd", **WORDS) as caller:
        await caller.post("/reset", row())
        assert (await act(caller, "hello")).status == 200
        await line.cut()
        assert failure(await act(caller, "hello")) == ("resources", True)
        async with Caller(caller.url) as other:
            assert failure(await verify(other, "hello")) == ("resources", True)
        assert failure(await caller.post("/reset", row())) == ("resources", True)


async def test_one_that_hangs_up_or_hangs_is_a_failure_to_be_retried(environments: str) -> None:
    async with playing(f"{environments}/odd", step_seconds=0.5, **WORDS) as caller:
        await caller.post("/reset", row())
        assert failure(await act(caller, "exit")) == ("resources", True)
        await caller.post("/reset", row())
        assert failure(await act(caller, "hang")) == ("timeout", True)
        assert failure(await act(caller, "hello")) == ("resources", True)  # and not the late answer of another step


async def test_one_that_never_ends_is_ended(environments: str) -> None:
    async with playing(f"{environments}/odd", max_turns=3, **WORDS) as caller:
        await caller.post("/reset", row())
        last = (await act(caller, "a", "b", "c")).body
        assert (last["truncated"], last["info"]["reason"], last["observation"]) == (True, "max_turns", "0 a b c")
        assert (await verify(caller, "a", "b", "c", "d")).body["reward"] == 0.0


async def test_sessions_at_the_same_time_are_apart(environments: str) -> None:
    async with (
        running(OpenEnv.app({"url": f"{environments}/odd", **WORDS}, name="openenv")) as at,
        AsyncExitStack() as all_,
    ):
        callers = [await all_.enter_async_context(Caller(at)) for _ in range(20)]

        async def play(number: int, caller: Caller) -> str:
            await caller.post("/reset", row(seed=number))
            text: str = (await act(caller, f"{number}a", f"{number}b")).body["observation"]
            return text

        observations = await asyncio.gather(*(play(*one) for one in enumerate(callers)))
    assert observations == [f"0 {number}a {number}b" for number in range(20)]


async def test_an_environment_of_one_session_is_waited_for(environments: str) -> None:
    async with playing(f"{environments}/small", **WORDS) as one, Caller(one.url) as other:
        await one.post("/reset", row())
        waiting = asyncio.create_task(other.post("/reset", row()))
        await one.post("/close", row())
        assert (await waiting).status == 200


async def test_a_place_that_no_one_leaves_is_a_failure_that_says_so(environments: str) -> None:
    async with playing(f"{environments}/small", open_seconds=1.0, **WORDS) as one, Caller(one.url) as other:
        while (await one.post("/reset", row())).status != 200:
            pass  # the test before has only just left
        reply = await other.post("/reset", row())
        assert failure(reply) == ("timeout", True)
        assert "every place of the environment is taken" in reply.body["error"]["message"]


async def test_a_ping_is_answered_while_the_policy_thinks() -> None:
    """Who does not answer one is cut off, by uvicorn after 40 seconds."""
    answered = asyncio.Event()

    async def serve(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        await socket.receive()
        await socket.send_json({"type": "observation", "data": {"observation": {}, "done": False}})
        await socket.ping()
        if (await socket.receive()).type is WSMsgType.PONG:
            answered.set()
        return socket

    async with pretending(serve) as url, playing(url) as caller:
        assert (await caller.post("/reset", row())).status == 200
        async with asyncio.timeout(ANSWER_SECONDS):
            await answered.wait()


@pytest.mark.parametrize("text", ["hello", "[]", '{"data": 1}', '{"type": "observation", "data": {"observation": 3}}'])
async def test_what_speaks_otherwise_is_not_an_environment(text: str) -> None:
    async def serve(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        await socket.send_str(text)
        await socket.receive()
        return socket

    async with pretending(serve) as url, playing(url) as caller:
        assert failure(await caller.post("/reset", row())) == ("resources", False)


async def test_fixed_fields_are_a_part_of_each_action(environments: str) -> None:
    async with playing(f"{environments}/odd", fixed_fields={"extra": 5}, **WORDS) as caller:
        await caller.post("/reset", row())
        assert (await act(caller, "hello")).body["observation"] == "5 hello"


async def test_what_cannot_begin_says_whose_fault_it_is(environments: str) -> None:
    async with playing(f"{environments}/odd", **WORDS) as caller:
        assert failure(await caller.post("/reset", row(over=True))) == ("row", False)
        assert failure(await caller.post("/reset", row(text="raise"))) == ("row", False)
        assert failure(await caller.post("/reset", row(text="raise once"))) == ("resources", False)
        assert failure(await caller.post("/reset", row(paid="much"))) == ("resources", False)
        assert failure(await caller.post("/reset", {**row(), "reset": [1]})) == ("row", False)
    async with playing(f"{environments}/odd", action_field="word", observation_field="picture") as caller:
        reply = await caller.post("/reset", row())
        assert failure(reply) == ("resources", False)
        assert "shows no 'picture', but metadata, text" in reply.body["error"]["message"]
    async with playing(f"{environments}/nowhere", **WORDS) as caller:
        assert failure(await caller.post("/reset", row()))[0] == "resources"


@pytest.mark.parametrize("url", ["", "127.0.0.1:8000", "ftp://here"])
async def test_a_server_without_an_address_does_not_start(url: str) -> None:
    app = OpenEnv.app({"url": url}, name="openenv")
    with pytest.raises(RuntimeError):
        async with running(app):
            pass
    assert "${service:env}" in str(app.failure)
