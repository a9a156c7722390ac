"""gem over HTTP, with the real package: its games, reasoning-gym's tasks, seeds, what does not run."""

from __future__ import annotations

import random
from typing import Any

import pytest
from app import Gem, GemRow
from generate import GemRows

from gym.server.adapters.chance import Chance
from gym.server.generating import generate
from gym.server.testing import Caller, running
from gym.wire.items import message

GAMES = GemRows().games
SERVER: Any = None  # `open` and `act` of Gem need none


def row_of(environment: str, **fields: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": "play"}, "environment": environment, "seed": 7, **fields}


async def act(caller: Caller, row: dict[str, Any], text: str) -> dict[str, Any]:
    reply = await caller.post("/step", {**row, "response": {"output": [message(text)]}})
    assert reply.status == 200, reply.body
    body: dict[str, Any] = reply.body
    return body


def opened(row: GemRow) -> tuple[Any, str]:
    with Chance(row.seed).lent():
        return Gem.open(SERVER, row)


async def test_a_number_is_found_by_the_hints_and_pays() -> None:
    row = row_of("game:GuessTheNumber-v0-easy")
    game, _ = opened(GemRow.model_validate(row))
    low, high, rewards = game.min_number, game.max_number, []
    async with running(Gem.app({}, name="gem")) as url, Caller(url) as caller:
        await caller.post("/reset", row)
        while True:
            guess = (low + high) // 2
            step = await act(caller, row, rf"I try \boxed{{{guess}}}")
            rewards.append(step["reward"])
            if step["terminated"]:
                break
            low, high = (low, guess - 1) if f"lower than {guess}" in step["observation"] else (guess + 1, high)
    assert guess == game.game_number
    assert rewards[-1] == max(rewards) > 0


@pytest.mark.parametrize("task", ["rg:gcd", "rg:basic_arithmetic", "rg:chain_sum", "rg:caesar_cipher"])
async def test_a_task_of_reasoning_gym_pays_its_own_answer_and_no_other(task: str) -> None:
    row = row_of(task, settings={"seed": 5, "size": 2})
    game, _ = opened(GemRow.model_validate(row))
    async with running(Gem.app({}, name="gem")) as url, Caller(url) as caller:
        for text, reward in ((rf"\boxed{{{game.data['answer']}}}", 1.0), ("I do not know", 0.0)):
            await caller.post("/reset", row)
            step = await act(caller, row, text)
            assert (step["reward"], step["terminated"]) == (reward, True)


def test_every_game_opens_twice_alike_and_takes_any_move() -> None:
    chosen = random.Random(3)
    for name in GAMES:
        row = GemRow.model_validate(row_of(name))
        (game, shown), (_, again) = opened(row), opened(row)
        assert shown == again, name
        for _ in range(6):
            move = chosen.choice(
                [r"\boxed{1 2}", r"\boxed{up}", r"\boxed{A B}", "nothing", r"\boxed{", r"\boxed{999 9 9}"]
            )
            step = Gem.act(SERVER, game, move)
            if step.ends:
                break


@pytest.mark.parametrize(
    ("fields", "kind", "said"),
    [
        ({"environment": "game:Sudoku-v0-esy"}, "row", "game:Sudoku-v0-easy"),
        ({"seed": -1}, "row", "seed"),
        ({"environment": "game:Crosswords-v0-easy"}, "resources", "does not run here"),
    ],
)
async def test_a_row_that_cannot_be_played_says_why(fields: dict[str, Any], kind: str, said: str) -> None:
    async with running(Gem.app({}, name="gem")) as url, Caller(url) as caller:
        error = (await caller.post("/reset", row_of("game:Sudoku-v0-easy") | fields)).body["error"]
    assert error["kind"] == kind
    assert said in error["message"]


def test_rows_are_made_of_games_and_else_of_what_is_named() -> None:
    made = list(generate(GemRows(), 40, seed=1, split="train", difficulty="any"))
    assert all(one.row["environment"].startswith("game:") for one in made)
    named = list(generate(GemRows(), 5, seed=1, split="train", difficulty="any", tasks=["rg:gcd"]))
    assert len({one.row["settings"]["seed"] for one in named}) == 5
