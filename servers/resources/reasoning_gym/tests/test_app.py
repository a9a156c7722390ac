"""reasoning_gym: every task of the package, the shipped cases, and whatever else a model may say."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from app import ReasoningGym, extract
from generate import entry_to_row, make_entry
from reasoning_gym.factory import DATASETS

from gym.server import ServerApp
from gym.server.fuzz import fuzz_verify
from gym.server.testing import Caller, Rows, running
from gym.wire.items import message, response

TASKS = sorted(set(DATASETS) - {"composite"})
MANY_ANSWERS = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}


async def test_every_task_gives_its_own_answer_full_marks_and_nothing_to_an_empty_one() -> None:
    made = {task: entry_to_row(make_entry(task, {}, 7)) for task in TASKS}
    assert sorted(made) == TASKS
    assert {task for task, row in made.items() if row["answer"] is None} == MANY_ANSWERS
    async with running(ReasoningGym.app({"strict": True}, name="rg")) as url, Caller(url) as caller:
        wrong = {}
        for task, row in made.items():
            given = f"<answer>{row['answer']}</answer>"
            scores = [await _score(caller, row, text) for text in (given, "<answer></answer>", "<answer>zzz</answer>")]
            if scores != [0.0 if task in MANY_ANSWERS else 1.0, 0.0, 0.0]:
                wrong[task] = scores
        assert not wrong


async def test_floors_are_the_packages_own_without_strict() -> None:
    async with running(ReasoningGym.app({}, name="rg")) as url, Caller(url) as caller:
        for task in ("countdown", "emoji_mystery", "puzzle24", "sentence_reordering"):
            row = entry_to_row(make_entry(task, {}, 8))
            score = await _score(caller, row, "<answer>zzz</answer>")
            assert math.isfinite(score)
            assert 0 < score <= 0.05


async def test_a_row_whose_answer_is_too_long_to_be_looked_at_is_refused() -> None:
    row = entry_to_row(make_entry("gcd", {}, 7)) | {"answer": "1" * 100_001}
    async with running(ReasoningGym.app({}, name="rg")) as url, Caller(url) as caller:
        answered = await caller.post("/verify", row | {"response": response([message("1")], model="m")})
    assert answered.status == 422
    assert "answer: 100001 characters" in answered.body["error"]["message"]


async def _score(caller: Caller, row: dict[str, Any], text: str) -> float:
    body = json.loads(json.dumps(row, default=str)) | {"response": response([message(text)], model="m")}
    answered = await caller.post("/verify", body)
    assert answered.status == 200, (row["metadata"], answered.body)
    reward: float = answered.body["reward"]
    return reward


@pytest.mark.parametrize("strict", [False, True])
def test_no_well_formed_request_breaks_it(app: ServerApp, rows: Rows, strict: bool) -> None:
    app = app.configured({"strict": strict})
    fuzz_verify(app, rows, texts=["<answer>3</answer>", "<answer>1 2</answer>", "\\boxed{4}"], examples=80)


@pytest.mark.parametrize(
    ("text", "plain", "strict"),
    [
        ("<answer> a </answer><answer>b</answer>", "b", "b"),
        (r"\boxed{1} or \boxed{2}", "1", "2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1", r"\frac{1}{2}"),
        ("just text", "just text", ""),
        ("<answer>open", "<answer>open", ""),
        ("<answer>a<answer>b</answer> </answer>", "a<answer>b", "b"),
        ("inside <answer> tags: So <answer>7</answer>", "tags: So <answer>7", "7"),
        ("<answer>7</answer> as asked: <answer></answer>", "", "7"),
        ("<answer>7</answer>, between <answer> and </answer>", "and", "7"),
        ("<answer>7</answer> No wait, that is wrong.", "7", ""),
        (r"\boxed{} \boxed{2}", "2", "2"),
        (r"\boxed{open", r"\boxed{open", ""),
        ("<answer></answer>", "", ""),
    ],
)
def test_where_an_answer_stands(text: str, plain: str, strict: str) -> None:
    assert (extract(text, strict=False), extract(text, strict=True)) == (plain, strict)


@pytest.mark.parametrize("piece", ["<answer>", "</answer>", r"\boxed{", r"\boxed{}"])
def test_tags_that_never_close_are_looked_for_once(piece: str) -> None:
    assert extract(piece * 500_000, strict=False) == piece * 500_000
    assert extract(piece * 500_000, strict=True) == ""
