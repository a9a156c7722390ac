"""`gym play`: a person as the policy, over real servers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import httpx
import pytest

from gym.cli.play.played_row import PlayedRow
from gym.cli.play.typed_turn import Left, parse_turn
from gym.errors import UserError
from gym.server import ResourcesServer, Score, VerifyRequest, tool
from gym.server.gymnasium import Action, GymnasiumServer, Step
from gym.server.testing import running
from gym.wire import items

ROW: dict[str, Any] = {"responses_create_params": {"input": [{"role": "user", "content": "Count to 3."}]}}
TOOL = {"name": "add", "parameters": {"properties": {"number": {"type": "integer"}, "note": {"type": "string"}}}}


class Counting(ResourcesServer[dict[str, int]]):
    closed = 0

    async def seed(self, row: Any) -> dict[str, int]:
        return {"count": 0}

    @tool
    async def add(self, number: int, state: dict[str, int]) -> dict[str, int]:
        """Adds a number."""
        state["count"] += number
        return dict(state)

    async def verify(self, rollout: VerifyRequest, state: dict[str, int]) -> Score:
        right = state["count"] == 3 and rollout.last_text == "done"
        return Score(reward=float(right), reason="" if right else f"counted {state['count']}")

    async def close(self, state: dict[str, int]) -> None:
        type(self).closed += 1


class Guessing(GymnasiumServer[list[str]]):
    async def reset(self, row: Any) -> tuple[list[str], str]:
        return [], "Guess."

    async def step(self, action: Action, state: list[str]) -> Step:
        state.append(items.last_assistant_text(action.response.output))
        return Step("Again.", float(state[-1] == "7"), terminated=state[-1] == "7")


class DirectStack:
    """The two calls of `gym.client.Stack` that a play needs, to one server."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, server: str, path: str) -> httpx.Response:
        return httpx.get(self.url + path)

    def post(self, server: str, path: str, body: Any, *, cookies: dict[str, str]) -> httpx.Response:
        headers = {"cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
        return httpx.post(self.url + path, json=body, headers=headers)


@contextmanager
def served(app: Any) -> Iterator[DirectStack]:
    """The app on an event loop of its own: a person's side is not asynchronous."""
    ready: list[str] = []
    up, over = threading.Event(), threading.Event()

    async def serve() -> None:
        async with running(app) as url:
            ready.append(url)
            up.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert up.wait(120)
    try:
        yield DirectStack(ready[0])
    finally:
        over.set()
        thread.join()


def play(app: Any, *typed: str, row: dict[str, Any] = ROW) -> tuple[dict[str, Any] | None, list[str]]:
    lines, shown = iter(typed), list[str]()

    def read() -> str:
        for line in lines:
            return line
        raise Left

    with served(app) as stack:
        return PlayedRow(cast(Any, stack), "env", row, shown.append, read).play(), shown


def test_a_person_sees_the_prompt_calls_tools_and_gets_the_verdict() -> None:
    verdict, shown = play(Counting.app(), "/add number=2", "", "/tools", "/sub 1", '/add {"number": 1}', "done")
    assert verdict is not None
    assert verdict["reward"] == 1.0
    assert shown[:2] == ["user: Count to 3.", "tools: add(number)"]
    assert '<- {"count":2}' in shown
    assert '<- {"count":3}' in shown
    assert "/add  number: integer\n    Adds a number." in shown
    assert any("no tool 'sub'" in line for line in shown)


def test_the_verifier_s_reason_comes_with_its_word() -> None:
    verdict, _ = play(Counting.app(), '"""', "do", 'ne"""')
    assert verdict is not None
    assert (verdict["reward"], verdict["reason"]) == (0.0, "counted 0")


def test_who_leaves_gets_no_verdict_and_leaves_no_session() -> None:
    before = Counting.closed
    assert play(Counting.app(), "/add number=2", "/quit")[0] is None
    assert Counting.closed == before + 1


def test_an_environment_of_steps_is_played_to_its_end() -> None:
    verdict, shown = play(Guessing.app(), "3", "7")
    assert verdict is not None
    assert verdict["reward"] == 1.0
    assert "user: Guess." in shown
    assert "(reward so far 0)" in shown


def test_a_row_that_takes_the_tools_of_its_server_gets_them() -> None:
    row = {"responses_create_params_defaults": {"tools": "auto", "input": "Count."}, "responses_create_params": {}}
    verdict, shown = play(Counting.app(), "/add number=3", "done", row=row)
    assert verdict is not None
    assert verdict["reward"] == 1.0
    assert shown[:2] == ["user: Count.", "tools: add(number)"]


def test_what_is_not_a_row_is_refused() -> None:
    with pytest.raises(UserError, match="responses_create_params"):
        play(Counting.app(), "done", row={"question": "?"})


@pytest.mark.parametrize(
    ("typed", "arguments"),
    [
        ("/add number=2 note=3", '{"number": 2, "note": "3"}'),
        ('/add note="two words" number=x', '{"note": "two words", "number": "x"}'),
        ("/add", "{}"),
    ],
)
def test_arguments_are_typed_as_the_tool_wants_them(typed: str, arguments: str) -> None:
    call = parse_turn(typed, [TOOL])
    assert (call["name"], call["arguments"]) == ("add", arguments)


@pytest.mark.parametrize("typed", ["/add two words", "/add {no json}"])
def test_arguments_that_cannot_be_read_are_refused(typed: str) -> None:
    with pytest.raises(UserError):
        parse_turn(typed, [TOOL])
