"""The library's code of a text environment where it runs after an `await`, and what a second model means for verify."""

from __future__ import annotations

import asyncio

from gym.server import Row
from gym.server.adapters.text_environment import TextEnvironment
from gym.server.cases import started
from gym.server.gymnasium import Step
from gym.server.testing import Caller, running
from gym.wire.items import message

ROW = {"responses_create_params": {"input": "play"}}
SECOND = {"opponent": {"type": "responses_api_models", "name": "second"}}


def spin() -> None:
    """A call, as a library's code is: CPython 3.12 and 3.13 let nothing catch what a signal raises in a `with` that is
    nothing but a loop."""
    while True:
        pass


class NeverReady(TextEnvironment[None]):
    async def open(self, row: Row) -> tuple[None, str]:
        with self.guarded("open"):
            spin()
        return None, ""


class SlowSecond(TextEnvironment[None]):
    def open(self, row: Row) -> tuple[None, str]:
        return None, "begin"

    async def act(self, environment: None, action: str) -> Step:
        await asyncio.sleep(0)
        with self.guarded("act"):
            spin()
        return Step()


async def test_a_library_that_never_opens_a_game_is_a_timeout() -> None:
    async with running(NeverReady.app({"act_seconds": 0.02}, name="games")) as url, Caller(url) as caller:
        reply = await caller.post("/reset", ROW)
    assert reply.body["error"]["kind"] == "timeout"
    assert "NeverReady.open took too long" in reply.body["error"]["message"]


async def test_what_never_ends_after_an_await_is_a_timeout() -> None:
    async with running(SlowSecond.app({"act_seconds": 0.02}, name="games")) as url, Caller(url) as caller:
        await caller.post("/reset", ROW)
        reply = await caller.post("/step", {**ROW, "response": {"output": [message("go")]}})
    assert reply.body["error"]["kind"] == "timeout"


async def test_a_game_against_a_second_model_is_not_verified_again() -> None:
    async with running(SlowSecond.app({}, name="games")) as url, Caller(url) as caller:
        assert (await caller.get("/reverify_mode")).body == "stateless"
    async with started(SlowSecond.app({}, name="games"), "games", SECOND) as bench, Caller(bench.url) as caller:
        assert (await caller.get("/reverify_mode")).body == "unsupported"
