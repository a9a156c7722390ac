"""gymnasium over HTTP, with the real package: games, spaces, drawings, rows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from random import Random
from typing import Any

import pytest
import pytest_asyncio
from app import Gymnasium
from drawing import describe, read_action
from generate import TOY_TEXT, GymnasiumRows
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from gym.server.generating import generate
from gym.server.testing import Caller, running
from gym.wire.items import message

ROW = {"responses_create_params": {"input": []}, "environment": "FrozenLake-v1", "seed": 4}
STILL = {**ROW, "settings": {"is_slippery": False}}


@pytest_asyncio.fixture
async def caller() -> AsyncIterator[Caller]:
    async with running(Gymnasium.app({}, name="gymnasium")) as url, Caller(url) as one:
        yield one


async def act(caller: Caller, row: dict[str, Any], action: str) -> dict[str, Any]:
    body: dict[str, Any] = (await caller.post("/step", {**row, "response": {"output": [message(action)]}})).body
    return body


async def test_the_lake_is_drawn_with_the_place_in_brackets(caller: Caller) -> None:
    begun = (await caller.post("/reset", STILL)).body["observation"]
    assert begun[0]["content"] == "[S]FFF\nFHFH\nFFFH\nHFFG\nObservation: 0\nActions: a whole number from 0 to 3"
    step = await act(caller, STILL, "2")
    assert step["observation"].splitlines()[1:3] == ["S[F]FF", "FHFH"]


async def test_an_action_out_of_range_is_said_to_be_none(caller: Caller) -> None:
    await caller.post("/reset", STILL)
    for wrong in ("4", "-1", "left", "1.0", "9" * 40):
        step = await act(caller, STILL, wrong)
        assert "is not a whole number from 0 to 3" in step["observation"]
        assert (step["reward"], step["terminated"]) == (0.0, False)


@pytest.mark.parametrize("environment", TOY_TEXT)
async def test_every_toy_text_environment_can_be_played(caller: Caller, environment: str) -> None:
    row = {**ROW, "environment": environment}
    assert (await caller.post("/reset", row)).status == 200
    random = Random(1)
    for _ in range(300):
        step = await act(caller, row, str(random.randrange(2)))
        if step["terminated"] or step["truncated"]:
            break
    else:
        pytest.fail(f"{environment} never ended")


async def test_a_seed_makes_the_same_game(caller: Caller) -> None:
    games = []
    for _ in range(2):
        await caller.post("/reset", ROW)
        games.append([(await act(caller, ROW, action))["observation"] for action in "2121"])
    assert games[0] == games[1]


def test_other_spaces_take_json() -> None:
    grid = MultiDiscrete([3, 3])
    assert list(read_action(grid, "[1, 2]")) == [1, 2]
    assert read_action(Box(0, 1, (2,)), "[0.5, 1]").tolist() == [0.5, 1.0]
    assert describe(Discrete(3, start=1)) == "a whole number from 1 to 3"
    box = Box(0, 1, (2,))
    wrongs = ((grid, "[9, 9]"), (grid, "left"), (grid, '{"a": 1}'), (box, "[7, 7]"))
    numbers = ((grid, "[1e999, 1]"), (grid, "[NaN, 1]"), (grid, "[" + "9" * 400 + ", 1]"), (box, "[1e999, NaN]"))
    deep = ((grid, "[" * 50_000 + "]" * 50_000), (box, "[" * 50_000 + "]" * 50_000))
    for space, wrong in (*wrongs, *numbers, *deep):
        with pytest.raises(ValueError, match="is not JSON for"):
            read_action(space, wrong)


def test_rows_of_one_task_alone() -> None:
    made = list(generate(GymnasiumRows(), 5, seed=1, split="train", difficulty="any", tasks=["Taxi-v4"]))
    assert {one.row["environment"] for one in made} == {"Taxi-v4"}
    assert len({one.row["seed"] for one in made}) == 5
