"""textarena over HTTP, with the real package: games alone and against a second model, seeds, what does not run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from itertools import pairwise
from typing import Any

import pytest
import textarena
from app import TextArena
from games import COSTLY, WITH_WORDS, known_games, players_of
from generate import TextArenaRows
from opening import TextArenaRow, open_match

from gym.server.adapters.cpu_limit import CpuLimit
from gym.server.cases import started
from gym.server.generating import generate
from gym.server.testing import Caller, running
from gym.wire.failures import RolloutError
from gym.wire.items import message

TAG = {"action": {"take": "tag"}, "rewards": "final"}
OPPONENT = {"opponent": {"type": "responses_api_models", "name": "second"}}
HANOI = ["A C", "A B", "C B", "A C", "B A", "B C", "A C"]


def row_of(environment: str, **fields: Any) -> dict[str, Any]:
    return {"responses_create_params": {"input": "play"}, "environment": environment, "seed": 7, **fields}


async def act(caller: Caller, row: dict[str, Any], text: str) -> dict[str, Any]:
    reply = await caller.post("/step", {**row, "response": {"output": [message(f"<action>{text}</action>")]}})
    assert reply.status == 200, reply.body
    body: dict[str, Any] = reply.body
    return body


async def test_a_game_alone_shows_its_rules_once_and_pays_at_its_end() -> None:
    row = row_of("TowerOfHanoi-v0")
    async with running(TextArena.app(TAG, name="t")) as url, Caller(url) as caller:
        rules = (await caller.post("/reset", row)).body["observation"][0]["content"]
        steps = [await act(caller, row, f"[{move}]") for move in HANOI]
    assert "Tower of Hanoi" in rules
    assert not any(rules in one["observation"] for one in steps)
    assert [one["reward"] for one in steps] == [0.0] * 6 + [1.0]
    assert [one["terminated"] for one in steps] == [False] * 6 + [True]
    assert steps[-1]["info"]["rewards"] == {"0": 1}


async def test_an_invalid_move_of_the_policy_is_a_reward_and_never_a_failure() -> None:
    async with running(TextArena.app(TAG, name="t")) as url, Caller(url) as caller:
        for environment in ("Countdown-v0", "Cryptarithm-v0", "Slitherlink-v0", "ThreeCardMonte-v0", "Mastermind-v0"):
            row = row_of(environment)
            await caller.post("/reset", row)
            steps = [await act(caller, row, "[?]") for _ in range(2)]
            assert steps[-1]["terminated"], environment
            assert steps[-1]["reward"] <= 0.0
            assert steps[-1]["info"]["invalid_move"] is True
            assert isinstance(steps[-1]["info"]["reason"], str)


def played_alone(environment: str, seed: int, moves: list[str]) -> list[str]:
    """What the package itself shows, in a process where nothing else rolls."""
    random.seed(seed)
    game = textarena.make(environment)
    game.reset(num_players=1, seed=seed)
    seen = [game.get_observation()[1]]
    for move in moves:
        game.step(move)
        seen.append(game.get_observation()[1])
    return seen


async def test_games_that_take_turns_in_one_process_are_each_the_packages_own_game() -> None:
    moves = ["[up]", "[left]", "[down]", "[right]"] * 3
    rows = [row_of("2048-v0", seed=seed) for seed in range(20)]
    async with running(TextArena.app(TAG, name="t")) as url, AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(Caller(url)) for _ in rows]
        begun = [await caller.post("/reset", row) for caller, row in zip(callers, rows, strict=True)]
        seen = [[reply.body["observation"][0]["content"]] for reply in begun]
        for move in moves:
            for caller, row, views in zip(callers, rows, seen, strict=True):
                random.random()
                views.append((await act(caller, row, move))["observation"])
    alone = [played_alone("2048-v0", seed, moves) for seed in range(20)]
    assert seen == [[after[len(before) :].lstrip("\n") for before, after in pairwise(["", *one])] for one in alone]
    assert len({views[-1] for views in seen}) == 20


def runnable() -> list[str]:
    return [name for name in known_games() if name.split("-v0")[0] not in WITH_WORDS and name not in COSTLY]


def test_every_game_that_is_said_to_run_opens_and_takes_any_move() -> None:
    chosen = random.Random(3)
    for name in runnable():
        match = open_match(TextArenaRow.model_validate(row_of(name, players=players_of(name))))
        assert match.look()[0], name
        for _ in range(6):
            if match.done:
                break
            with CpuLimit(5.0, wall=60.0):
                match.move(chosen.choice(["[0]", "[1 2]", "[A B]", "[up]", "nothing", "[999 999]", "[bid 1]", "[²]"]))
            match.look()
        if match.done:
            step = match.result()
            assert isinstance(step.reward, (int, float)), (name, step)


async def test_a_second_model_plays_the_other_seat_and_sees_its_own_view() -> None:
    row = row_of("TicTacToe-v0", players=2)
    async with started(TextArena.app({}, name="t"), "t", {**TAG, **OPPONENT}) as bench:
        free = iter(["[8]", "[7]"])
        asked: list[Any] = []
        bench.judge.answer = lambda body: asked.append(body) or next(free)
        async with Caller(bench.url) as caller:
            assert (await caller.get("/reverify_mode")).body == "unsupported"
            assert (await caller.post("/reset", row)).status == 200
            steps = [await act(caller, row, f"[{cell}]") for cell in (0, 1, 2)]
    assert [one["reward"] for one in steps] == [0.0, 0.0, 1.0]
    assert steps[-1]["info"]["rewards"] == {"0": 1, "1": -1}
    assert len(asked) == 2
    assert "[8]" in steps[0]["observation"]


async def test_the_policy_may_move_second_and_wins_by_the_others_invalid_moves() -> None:
    row = row_of("TicTacToe-v0", players=2, player=1)
    async with started(TextArena.app({}, name="t"), "t", {**TAG, **OPPONENT}) as bench, Caller(bench.url) as caller:
        bench.judge.answer = lambda _: "I do not know."
        assert (await caller.post("/reset", row)).status == 200
        step = await act(caller, row, "[4]")
    assert (step["reward"], step["terminated"]) == (1.0, True)


@pytest.mark.parametrize(
    ("fields", "kind", "said"),
    [
        ({"environment": "TicTacTo-v0"}, "row", "TicTacToe-v0"),
        ({"environment": "TicTacToe-v0"}, "row", "players"),
        ({"environment": "TicTacToe-v0", "players": 2, "player": 2}, "row", "player: 2"),
        ({"environment": "TicTacToe-v0", "players": 2, "player": 1}, "row", "opponent"),
        ({"environment": "TowerOfHanoi-v0", "settings": {"disks": 3}}, "row", "disks"),
        ({"environment": "GuessWho-v0"}, "resources", "OpenRouter"),
    ],
)
async def test_a_row_that_cannot_be_played_says_why(fields: dict[str, Any], kind: str, said: str) -> None:
    async with running(TextArena.app(TAG, name="t")) as url, Caller(url) as caller:
        error = (await caller.post("/reset", row_of("x") | fields)).body["error"]
    assert error["kind"] == kind
    assert said in error["message"]
    assert error["retryable"] is False


@contextmanager
def words(folder: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """nltk's words as an image has them where they were baked in; nothing is fetched."""
    import nltk

    place = folder / "corpora" / "words"
    place.mkdir(parents=True)
    for name in ("en", "en-basic"):
        (place / name).write_text("apple\nhouse\nplane\nriver\nstone\nwater\n" * 4)
    with ExitStack() as stack:
        stack.callback(nltk.data.path.remove, str(folder))
        nltk.data.path.insert(0, str(folder))
        monkeypatch.setattr(nltk, "download", lambda *_, **__: True)
        yield


def test_a_game_of_words_says_what_to_bake_and_runs_with_it(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    row = TextArenaRow.model_validate(row_of("Hangman-v0"))
    import nltk

    monkeypatch.setattr(nltk, "download", lambda *_, **__: False)
    monkeypatch.setattr(nltk.data, "path", [])
    with pytest.raises(RolloutError, match="NLTK_DATA"):
        open_match(row)
    with words(tmp_path, monkeypatch):
        assert "Hangman" in open_match(row).look()[0]


def test_rows_are_made_of_the_named_games_and_else_of_those_for_one_player() -> None:
    made = list(generate(TextArenaRows(), 60, seed=1, split="train", difficulty="any"))
    assert len({one.row["environment"] for one in made}) > 20
    assert {one.row["players"] for one in made} == {1}
    named = generate(TextArenaRows(), 5, seed=1, split="train", difficulty="any", tasks=["ConnectFour-v0"])
    assert {(one.row["environment"], one.row["players"]) for one in named} == {("ConnectFour-v0", 2)}
