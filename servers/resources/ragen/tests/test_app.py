"""Classes in RAGEN's style over HTTP: turns of several actions, what a configuration may get wrong, what breaks."""

from __future__ import annotations

import itertools
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from app import Ragen, RagenConfig
from crates import Crates, CratesConfig
from generate import RagenRows
from levers import Levers, LeversConfig
from loading import search_in

from gym.errors import UserError
from gym.server.config import Settings
from gym.server.fuzz import fuzz_verify
from gym.server.generating import generate, prove
from gym.server.testing import Caller, Rows, running
from gym.wire.items import message

FIELDS = {
    "environments": {
        "crates": {"environment": "crates:Crates", "max_actions_per_turn": 40},
        "levers": {"environment": "levers:Levers", "max_actions_per_turn": 20},
    }
}
COUNTING = {"responses_create_params": {"input": "count"}, "environment": "counting", "seed": 5}


@dataclass
class CountingConfig:
    goal: int = 3
    reward: Any = 0.5
    answer: Any = None  # returned by `step` instead
    raises: str = ""
    drawn: Any = ""
    action_lookup: dict[int, str] | None = field(default_factory=lambda: {1: "More", 2: "Less"})


class Board:
    """What numpy's arrays and numbers look like from afar."""

    def __init__(self, *numbers: int) -> None:
        self.numbers, self.ndim = numbers, len(numbers) - 1

    def item(self) -> int:
        (number,) = self.numbers
        return number


class Counting:
    """Counts to a goal, and breaks in every way that its configuration says."""

    made = itertools.count()

    def __init__(self, config: CountingConfig | None = None) -> None:
        self.config = config or CountingConfig()
        self.number = next(Counting.made)

    def reset(self, seed: int | None = None, **_: Any) -> tuple[str, dict[str, Any]]:
        self.count = 0
        return "begin", {}

    def step(self, action: Any) -> Any:
        if self.config.raises:
            raise ValueError(self.config.raises)
        while self.config.answer == "hang":
            pass
        if self.config.answer is not None:
            return self.config.answer
        self.count += {1: 1, 2: -1}.get(action, 0)
        info = {"success": False, "board": Board(1, 2), "place": Board(7), "rolled": random.random()}
        return str(action), self.config.reward, self.count >= self.config.goal, info

    def render(self) -> Any:
        return self.config.drawn or f"count {self.count}"


def counting(**rules: Any) -> dict[str, Any]:
    return {"environments": {"counting": {"environment": f"{__name__}:Counting", **rules}}}


@pytest_asyncio.fixture
async def caller() -> AsyncIterator[Caller]:
    async with running(Ragen.app(FIELDS, name="ragen")) as url, Caller(url) as one:
        yield one


async def play(fields: dict[str, Any], *texts: str, **row: Any) -> tuple[Any, list[dict[str, Any]]]:
    """The first observation, and each reply of `/step`."""
    asked = {**COUNTING, **row}
    async with running(Ragen.app(fields, name="ragen")) as url, Caller(url) as one:
        first = (await one.post("/reset", asked)).body
        answers = [{**asked, "response": {"output": [message(text)]}} for text in texts]
        return first, [(await one.post("/step", answer)).body for answer in answers]


async def test_the_actions_of_a_reply_are_taken_until_the_game_ends() -> None:
    first, steps = await play(counting(), "<answer>more || MORE</answer>", "<answer>More||More||More</answer>")
    assert first["observation"][0]["content"] == "count 0"
    assert (steps[0]["observation"], steps[0]["reward"]) == ("count 2\nActions left: 98", 1.0)
    assert (steps[1]["observation"], steps[1]["reward"], steps[1]["terminated"]) == ("count 3", 0.5, True)
    assert steps[1]["info"].keys() == {"success", "place", "rolled"}
    assert steps[1]["info"]["place"] == 7


async def test_words_that_are_not_an_action_are_passed_over_and_cost_once() -> None:
    fields = {**counting(), "format_penalty": -0.25, "missing_action_reward": -0.25}
    _, steps = await play(fields, "<answer>up || More || down</answer>", "<answer>up</answer>", "More")
    assert [one["reward"] for one in steps] == [0.25, -0.25, -0.25]
    assert steps[0]["observation"].startswith("count 1")
    assert steps[1]["observation"].startswith("None of that is an action. There are: More, Less.\ncount 1")
    assert "between <answer> and </answer>" in steps[2]["observation"]


async def test_a_turn_and_a_game_have_so_many_actions() -> None:
    rules = counting(max_actions_per_turn=2, max_actions=3, config={"goal": 9})
    _, steps = await play(rules, "<answer>More||More||More</answer>", "<answer>More||More</answer>")
    assert steps[0]["observation"] == "count 2\nActions left: 1"
    assert (steps[1]["observation"], steps[1]["truncated"], steps[1]["info"]["reason"]) == (
        "count 3",
        True,
        "max_actions",
    )


async def test_without_names_the_environment_gets_the_words() -> None:
    rules = counting(config={"action_lookup": None, "raises": "five is not it"}, bad_action=["ValueError"])
    _, steps = await play({**rules, "separator": ""}, "<answer>five || six</answer>")
    assert steps[0]["observation"].startswith("That action cannot be: five is not it\ncount 0")
    assert (steps[0]["reward"], steps[0]["terminated"]) == (0.0, False)


@pytest.mark.parametrize(
    ("config", "kind", "said"),
    [
        ({"reward": float("nan")}, "resources", "Counting.step returned the reward nan"),
        ({"reward": "1"}, "resources", "Counting.step returned the reward '1'"),
        ({"reward": None}, "resources", "Counting.step returned the reward None"),
        ({"answer": ("text", 1.0, False, False, {})}, "resources", "(observation, reward, done, info) is needed"),
        ({"answer": 1}, "resources", "(observation, reward, done, info) is needed"),
        ({"raises": "the board is gone"}, "resources", "the board is gone"),
        ({"answer": "hang"}, "timeout", "took too long"),
    ],
)
async def test_what_the_environment_does_wrong_is_a_failure(config: dict[str, Any], kind: str, said: str) -> None:
    fields = {**counting(config=config), "act_seconds": 0.2}
    _, (step,) = await play(fields, "<answer>More</answer>")
    assert (step["error"]["kind"], said in step["error"]["message"]) == (kind, True), step


async def test_a_picture_is_not_shown_as_text() -> None:
    first, _ = await play(counting(config={"drawn": [[0, 255]]}))
    assert first["error"]["kind"] == "resources"
    assert "render_mode: text" in first["error"]["message"]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"environment": "maze"}, "environment: 'maze' is none of counting"),
        ({"config": {"aim": 3}}, "CountingConfig cannot be {'aim': 3}"),
        ({"seed": -1}, "seed"),
    ],
)
async def test_a_row_that_cannot_be_played_says_why(row: dict[str, Any], said: str) -> None:
    first, _ = await play(counting(), **row)
    assert (first["error"]["kind"], said in first["error"]["message"]) == ("row", True), first


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"environment": "no_such_package.env:Maze"}, "No module named 'no_such_package' (Python 3."),
        ({"environment": "crates:Maze"}, "crates has no class Maze"),
        ({"environment": "crates"}, "no module and class"),
        ({"environment": "pathlib:Path", "config": {"a": 1}}, "no PathConfig beside pathlib:Path"),
    ],
)
def test_a_configuration_that_names_what_is_not_there_does_not_start(rules: dict[str, Any], said: str) -> None:
    config = RagenConfig.model_validate({"name": "ragen", "environments": {"maze": rules}})
    with pytest.raises(UserError) as raised:
        Ragen(config, Settings("ragen"))
    assert said in str(raised.value)
    assert "\n" in str(raised.value)  # what to do about it


async def test_a_checkout_that_is_not_a_package_is_found_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    text = "class Echo:\n    def reset(self, seed=None):\n        return 'say'\n"
    text += "    def step(self, action):\n        return action, len(action), True, {}\n"
    (tmp_path / "far" / "echo_of_a_checkout.py").write_text(text)
    named = {"environments": {"counting": {"environment": "far.echo_of_a_checkout:Echo"}}, "folders": [str(tmp_path)]}
    first, (step,) = await play(named, "<answer>hello</answer>")
    assert first["observation"][0]["content"] == "say"
    assert (step["observation"], step["reward"], step["terminated"]) == ("hello", 5.0, True)
    with pytest.raises(UserError, match="nowhere is not a folder"):
        search_in(["nowhere"])


async def test_each_game_rolls_for_itself_and_has_its_attributes() -> None:
    rules = counting(config={"goal": 9}, attributes={"number": 0})
    rolled = [(await play(rules, "<answer>More</answer>", "<answer>More</answer>"))[1] for _ in range(2)]
    assert [one["info"]["rolled"] for one in rolled[0]] == [one["info"]["rolled"] for one in rolled[1]]


def test_rooms_can_be_solved_and_none_begins_solved() -> None:
    for seed in range(200):
        room = Crates(CratesConfig(crates=2, pillars=3))
        room.reset(seed)
        assert room.on_marks == 0
        assert room.render() == Crates(CratesConfig(crates=2, pillars=3)).reset(seed)
    with pytest.raises(ValueError, match="more things than places"):
        CratesConfig(height=2, width=2, crates=2)


def test_one_lever_is_the_best() -> None:
    for seed in range(200):
        game = Levers(LeversConfig(levers=8, gap=8))
        game.reset(seed)
        first, second, *_ = sorted(game.means, reverse=True)
        assert first - second >= 8


@pytest.mark.parametrize("task", RagenRows.tasks)
async def test_made_rows_are_paid_for_their_solution_and_not_for_none(task: str) -> None:
    for difficulty in RagenRows.difficulties:
        made = generate(RagenRows(), 10, seed=3, split="train", difficulty=difficulty, tasks=[task])
        proof = await prove(Ragen.app(FIELDS, name="ragen"), made, fields=FIELDS, steps=False)
        assert (proof.rows, proof.unpaid, proof.paid_empty) == (10, [], [])  # one prompt serves many seeds


def test_hostile_texts_are_rewards(rows: Rows) -> None:
    texts = (
        "<answer>||||</answer>",
        "<answer>" + "Up||" * 500 + "</answer>",
        "<answer>choose A",
        "<answer>pull É</answer>",
    )
    fuzz_verify(Ragen.app(FIELDS, name="ragen"), rows, texts=texts, examples=60)
