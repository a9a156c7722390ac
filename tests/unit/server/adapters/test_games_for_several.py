"""Games in which a second model has a seat, and games that roll with Python's one random generator."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from gym.server import Row
from gym.server.adapters.text_environment import MAX_OTHER_MOVES, OthersTurn, TextEnvironment
from gym.server.gymnasium import Step
from gym.server.testing import Caller, running, scripted_judge
from gym.wire import items

SECOND = {"opponent": {"type": "responses_api_models", "name": "second"}, "opponent_prompt": "Take from the heap."}


class HeapRow(Row):
    left: int
    first: bool = True  # whether the policy moves first


@dataclass
class Heap:
    """Who takes the last one wins."""

    left: int
    policys_turn: bool

    def take(self, action: str) -> None:
        if not 1 <= int(action) <= self.left:
            raise ValueError(f"there are {self.left}")
        self.left -= int(action)
        self.policys_turn = not self.policys_turn

    def result(self) -> Step | OthersTurn:
        if not self.left:
            return Step("over", reward=-1.0 if self.policys_turn else 1.0, terminated=True)
        return Step(f"{self.left} left") if self.policys_turn else OthersTurn(f"yours: {self.left}")


class HeapGame(TextEnvironment[Heap]):
    bad_action = (ValueError,)

    def open(self, row: HeapRow) -> tuple[Heap, Step | OthersTurn]:
        heap = Heap(row.left, row.first)
        return heap, heap.result()

    def act(self, heap: Heap, action: str) -> Step | OthersTurn:
        heap.take(action)
        return heap.result()


class EndlessGame(TextEnvironment[None]):
    def open(self, row: Row) -> tuple[None, OthersTurn]:
        return None, OthersTurn("yours")

    def act(self, environment: None, action: str) -> OthersTurn:
        return OthersTurn("yours again")


class DiceRow(Row):
    seed: int


class DiceGame(TextEnvironment[None]):
    own_random = True

    def open(self, row: DiceRow) -> tuple[None, str]:
        return None, str(random.random())

    def act(self, environment: None, action: str) -> Step:
        return Step(str(random.random()))


@asynccontextmanager
async def against(said: str, kind: type[TextEnvironment[Any]] = HeapGame) -> AsyncIterator[tuple[Caller, Any]]:
    async with scripted_judge(said, name="second") as second:
        app = kind.app(SECOND, name="heap", document=second.document)
        async with running(app) as url, Caller(url) as caller:
            yield caller, second


def row_of(**fields: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": "play"}, **fields}


async def act(caller: Caller, row: dict[str, Any], text: str) -> dict[str, Any]:
    reply = await caller.post("/step", {**row, "response": {"output": [items.message(text)]}})
    body: dict[str, Any] = reply.body
    return body


async def test_a_second_model_moves_before_it_is_the_policys_turn_again() -> None:
    row = row_of(left=5)
    async with against("1") as (caller, second):
        assert (await caller.post("/reset", row)).body["observation"][0]["content"] == "5 left"
        assert (await act(caller, row, "2"))["observation"] == "2 left"
        won = await act(caller, row, "2")
    assert (won["reward"], won["terminated"]) == (1.0, True)
    assert [one.split("\n")[-1] for one in second.prompts] == ["yours: 3"]


async def test_a_second_model_that_moves_first_is_asked_before_the_policy_sees_anything() -> None:
    async with against("2") as (caller, _):
        begun = await caller.post("/reset", row_of(left=5, first=False))
    assert begun.body["observation"][0]["content"] == "3 left"


async def test_a_game_that_is_lost_before_the_first_move_pays_at_the_first_step() -> None:
    row = row_of(left=2, first=False)
    async with against("2") as (caller, _):
        assert (await caller.post("/reset", row)).body["observation"][0]["content"] == "over"
        lost = await act(caller, row, "1")
    assert (lost["reward"], lost["terminated"]) == (-1.0, True)


async def test_what_a_second_model_may_not_do_is_a_failure_and_no_reward_of_the_policy() -> None:
    row = row_of(left=5)
    async with against("9") as (caller, _):
        await caller.post("/reset", row)
        assert "cannot be: there are 5" in (await act(caller, row, "9"))["observation"]
        error = (await act(caller, row, "1"))["error"]
    assert error["kind"] == "model"
    assert "the second model's action '9' cannot be: there are 4" in error["message"]


async def test_a_game_that_is_never_the_policys_is_a_failure() -> None:
    async with against("on", EndlessGame) as (caller, second):
        second.answer = lambda _: "on"
        error = (await caller.post("/reset", row_of())).body["error"]
    assert error["kind"] == "resources", error
    assert len(second.prompts) == MAX_OTHER_MOVES


async def test_games_in_one_process_roll_as_each_would_alone() -> None:
    rows = [row_of(seed=seed) for seed in (1, 2, 1)]
    async with running(DiceGame.app({}, name="dice")) as url, AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(Caller(url)) for _ in rows]
        begun = [await caller.post("/reset", row) for caller, row in zip(callers, rows, strict=True)]
        seen = [[one.body["observation"][0]["content"]] for one in begun]
        for _ in range(3):
            for caller, row, views in zip(callers, rows, seen, strict=True):
                random.random()
                views.append((await act(caller, row, "on"))["observation"])
    assert seen == [rolls(row["seed"]) for row in rows]


def rolls(seed: int) -> list[str]:
    alone = random.Random(seed)
    return [str(alone.random()) for _ in range(4)]
