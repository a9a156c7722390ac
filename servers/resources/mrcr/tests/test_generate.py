"""Rows of mrcr made by program: the text that is asked for is the one that the conversation holds."""

from __future__ import annotations

import re
import sys
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from generate import LEVELS, ORDINALS, MrcrGenerator

from gym.server.generating import Made, generate
from gym.server.serve import load_app
from gym.server.testing.made_rows import check_paid, check_repeatable

APP = Path(__file__).parents[1] / "app.py"
GENERATOR = MrcrGenerator()


def made(count: int, difficulty: str, **options: Any) -> list[Made]:
    return list(generate(GENERATOR, count, **({"seed": 5, "split": "train", "difficulty": difficulty} | options)))


def conversation(one: Made) -> list[dict[str, str]]:
    messages: list[dict[str, str]] = one.row["responses_create_params"]["input"]
    return messages


def solve(messages: list[dict[str, str]]) -> str:
    """The code and the reply as a reader of the last message finds them."""
    asked = messages[-1]["content"]
    code = re.findall(r"(?:with|Put|Write) ([A-Za-z0-9]{10})\b", asked)[0]
    nth, wanted = re.findall(rf"({'|'.join(ORDINALS)}) (.+? about an? [a-z]+)", asked)[0]
    replies = [
        reply["content"]
        for request, reply in zip(messages[:-1:2], messages[1::2], strict=True)
        if re.sub("^(Please w|W)rite a ", "", request["content"]) == f"{wanted}."
    ]
    return code + replies[ORDINALS.index(nth)]


@pytest.mark.parametrize("difficulty", LEVELS)
def test_a_reader_of_the_conversation_finds_the_expected_answer(difficulty: str) -> None:
    for one in made(20 if difficulty == "extreme" else 80, difficulty):
        messages = conversation(one)
        assert solve(messages) == one.row["expected_answer"] == one.row["expected_answer"].strip()
        assert [message["role"] for message in messages] == ["user", "assistant"] * (len(messages) // 2) + ["user"]
        replies = [message["content"] for message in messages if message["role"] == "assistant"]
        assert len(set(replies)) == len(replies)


def test_needles_and_turns_grow_with_the_difficulty() -> None:
    needles, turns = [], []
    for difficulty in LEVELS:
        rows = made(30, difficulty)
        needles.append(fmean(one.row["n_needles"] for one in rows))
        turns.append(fmean(len(conversation(one)) for one in rows))
    sys.stdout.write(f"needles {needles}, messages {turns}\n")
    assert all(few < many for grown in (needles, turns) for few, many in pairwise(grown))


@pytest.mark.parametrize("strict", [False, True])
async def test_the_verifier_pays_every_solution_and_no_empty_answer(strict: bool) -> None:
    await check_paid(load_app(APP), GENERATOR, 25, strict=strict, grows=True)


def test_the_same_seed_makes_the_same_rows_and_splits_share_no_task() -> None:
    rows = check_repeatable(GENERATOR, "easy")
    assert len({one.row["uuid"] for one in rows}) == 50


@pytest.mark.long
@pytest.mark.parametrize(("strict", "count"), [(False, 10_000), (True, 2_000)])
async def test_ten_thousand_rows_of_each_difficulty_are_paid(strict: bool, count: int) -> None:
    await check_paid(load_app(APP), GENERATOR, count, strict=strict)
