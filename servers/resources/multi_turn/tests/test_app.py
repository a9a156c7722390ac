"""multi_turn over HTTP: resets, steps, retried steps, and finished talks replayed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from app import MultiTurn
from holding import stands_by

from gym.server.fuzz import fuzz_verify
from gym.server.testing import Caller, running
from gym.wire.items import message

ROW = {"responses_create_params": {"input": "pick a number"}, "follow_ups": ["double it", "and now?"]}
ROW = {**ROW, "expected_answer": "Eight"}


@pytest_asyncio.fixture
async def caller() -> AsyncIterator[Caller]:
    async with running(MultiTurn.app({}, name="multi_turn")) as url, Caller(url) as one:
        yield one


async def act(caller: Caller, text: str, **fields: Any) -> dict[str, Any]:
    answered = await caller.post("/step", {**ROW, "response": {"output": [message(text)]}, **fields})
    assert answered.status == 200, answered.body
    body: dict[str, Any] = answered.body
    return body


async def test_follow_ups_come_in_their_order_and_the_last_answer_counts(caller: Caller) -> None:
    assert (await caller.post("/reset", ROW)).body["observation"] is None
    first, second, last = [await act(caller, text) for text in ("two", "four", "eight!")]
    assert (first["observation"], second["observation"], last["observation"]) == ("double it", "and now?", None)
    assert [one["reward"] for one in (first, second, last)] == [0.0, 0.0, 1.0]
    assert (first["terminated"], last["terminated"]) == (False, True)


async def test_a_step_asked_for_twice_is_taken_once(caller: Caller) -> None:
    await caller.post("/reset", ROW)
    once = await act(caller, "two", _ng_step_request_id="a")
    assert await act(caller, "two", _ng_step_request_id="a") == once
    assert (await act(caller, "four", _ng_step_request_id="b"))["observation"] == "and now?"


async def test_no_step_without_a_reset_and_none_after_the_end(caller: Caller) -> None:
    body = {**ROW, "follow_ups": [], "response": {"output": [message("eight")]}}
    assert (await caller.post("/step", body)).status == 422
    await caller.post("/reset", {**ROW, "follow_ups": []})
    assert (await caller.post("/step", body)).body["terminated"]
    over = await caller.post("/step", body)
    assert (over.status, over.body["error"]["kind"]) == (422, "row")


async def test_talks_do_not_mix(caller: Caller) -> None:
    async with Caller(caller.url) as other:
        await caller.post("/reset", ROW)
        await other.post("/reset", ROW)
        await act(caller, "two")
        assert (await act(other, "two"))["observation"] == "double it"
        assert (await act(caller, "four"))["observation"] == "and now?"


async def test_a_closed_episode_is_lost(caller: Caller) -> None:
    await caller.post("/reset", ROW)
    assert (await caller.post("/close")).body == {"closed": True}
    gone = await caller.post("/step", {**ROW, "response": {"output": []}})
    assert gone.body["error"]["kind"] == "lost_session"


async def test_verify_plays_a_talk_again(caller: Caller) -> None:
    talk = [message("two"), message("double it", role="user"), message("four"), message("and now?", role="user")]
    whole = await caller.post("/verify", {**ROW, "response": {"output": [*talk, message("EIGHT")]}})
    assert (whole.body["reward"], whole.body["num_steps"]) == (1.0, 3)
    half = await caller.post("/verify", {**ROW, "response": {"output": talk}})
    assert (half.body["reward"], half.body["terminated"]) == (0.0, False)
    assert "end" in half.body["reason"]


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        *(
            ("2", "it is 2."),
            ("2", "**2**"),
            ("10", "14 - 4 = 10"),
            ("51", "17 times 3 is 51 (17 * 3)."),
            ("51", "It is 51"),
        ),
        *(
            ("red", "Red."),
            ("red", "Well, red."),
            ("red", "Red.\n\nI hope this helps. Ask me more."),
            ("51", "**51**\n\nI hope this helps."),
            ("red", "The one left over is red, which mixes no green."),
            ("Tagus", "Tagus"),
        ),
    ],
)
def test_strict_takes_an_answer_that_names_the_expected_one(expected: str, text: str) -> None:
    assert stands_by(expected, text)


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        *(
            ("2", "it is 12"),
            ("2", "it is 2.5"),
            ("51", "49, 50, 51"),
            ("51", "50 or 51"),
            ("51", "50 51"),
            ("51", "51, 52"),
        ),
        *(
            ("51", "51. No wait, 54"),
            ("51", "not 51"),
            ("51", "51 is wrong"),
            ("51", "51\n52"),
            ("51", ""),
            ("  ", "anything"),
        ),
        *(("red", "red, yellow or blue"), ("red", "blue or red"), ("red", "yellow, blue, red"), ("red", "red/blue")),
        *(("red", "It is not red"), ("red", "red\nblue"), ("red", "red and blue"), ("red", "It is red. It is blue.")),
    ],
)
def test_strict_takes_no_list_of_guesses_and_no_denial(expected: str, text: str) -> None:
    assert not stands_by(expected, text)


def test_any_output_and_any_row_are_answered() -> None:
    fuzz_verify(MultiTurn.app({}, name="multi_turn"), [ROW], texts=["eight"])
