"""Rows of format_verification made by program: the form asked for pays, and with a line or marker less it does not."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from statistics import fmean
from typing import Any

import pytest
from forms import BETWEEN, COUNTED, ENDS, FREE, HEADS, PREFIXES
from generate import FACTS, LEVELS, FormatVerificationGenerator
from matching import match_lines, match_markers

from gym.server.generating import Made, generate
from gym.server.serve import load_app
from gym.server.testing.made_rows import check_paid, check_repeatable

APP = Path(__file__).parents[1] / "app.py"
GENERATOR = FormatVerificationGenerator()
FILLED = [re.escape(fact).replace(r"\{thing\}", "([a-z]+)") for fact in FACTS]
PATTERNS = [re.sub(r"\\{\w+\\}", "[A-Za-z ]+?", fact) for fact in FILLED]


def made(count: int, difficulty: str, kind: str = "") -> list[Made]:
    rows = list(generate(GENERATOR, count, seed=5, split="train", difficulty=difficulty))
    return [one for one in rows if not kind or one.row["verifier"]["type"] == kind]


def prompt_of(one: Made) -> str:
    text: str = one.row["responses_create_params"]["input"][0]["content"]
    return text


def passes(one: Made, text: str) -> bool:
    verifier: dict[str, Any] = one.row["verifier"]
    if verifier["type"] == "regex":
        return bool(match_lines(text, verifier["verify_regex"], verifier["verify_min_matches"])["passed"])
    return bool(match_markers(text, verifier["expected_markers"], verifier["patterns"])["passed"])


@pytest.mark.parametrize("difficulty", LEVELS)
def test_the_answer_passes_and_neither_the_prompt_nor_an_answer_with_a_line_or_marker_less_does(
    difficulty: str,
) -> None:
    for one in made(300, difficulty):
        assert passes(one, one.answer)
        assert not passes(one, prompt_of(one))
        if one.row["verifier"]["type"] == "regex":
            assert not passes(one, one.answer.partition("\n")[2])
            assert not passes(one, "\n".join(f"x {line}" for line in one.answer.split("\n")))
        else:
            first, second = one.row["verifier"]["expected_markers"][:2]
            assert not passes(one, one.answer.replace(first, ""))
            spurious = re.sub(r"\d+", "999", second)
            assert not passes(one, f"{one.answer} {spurious}")


@pytest.mark.parametrize("difficulty", LEVELS)
def test_who_reads_sources_and_question_alone_finds_the_same_sources(difficulty: str) -> None:
    for one in made(200, difficulty, "string_match"):
        said = prompt_of(one)
        question = next(part for part in said.split("\n\n") if part[0] != "S" or part.startswith("Say"))
        question = question if " the " in question else said.split("\n\n")[1]
        needed = set()
        for number, text in re.findall(r"^Source (\d+): (.*)$", said, re.MULTILINE):
            things = [match[1] for pattern in PATTERNS if (match := re.fullmatch(pattern, text))]
            if any(re.search(rf"\bthe {thing}\b", question) for thing in things):
                needed.add(number)
        expected = {re.findall(r"\d+", marker)[0] for marker in one.row["verifier"]["expected_markers"]}
        assert needed == expected, said


def test_every_part_of_a_form_matches_what_it_writes_and_no_two_read_alike() -> None:
    random = Random(1)
    for part in (*PREFIXES, *HEADS, *BETWEEN, FREE, *COUNTED, *ENDS):
        for at in range(1, 16):
            assert re.fullmatch(part.pattern, part.write(random, at)), part.asked
    for parts in (PREFIXES, HEADS, BETWEEN, COUNTED, ENDS):
        assert len({part.asked for part in parts}) == len({part.pattern for part in parts}) == len(parts)


def test_the_same_seed_makes_the_same_rows_of_both_kinds() -> None:
    rows = check_repeatable(GENERATOR, "hard", 60)
    assert {one.row["verifier"]["type"] for one in rows} == {"regex", "string_match"}


def test_a_harder_row_asks_for_more_lines_and_more_markers() -> None:
    for kind, field in (("regex", "verify_min_matches"), ("string_match", "expected_markers")):
        sizes = [
            fmean(size if isinstance(size := one.row["verifier"][field], int) else len(size) for one in rows)
            for rows in (made(200, difficulty, kind) for difficulty in LEVELS)
        ]
        assert all(more > 1.3 * less for less, more in zip(sizes, sizes[1:], strict=False)), sizes


@pytest.mark.parametrize("strict", [False, True])
async def test_the_verifier_pays_every_solution_and_no_empty_answer(strict: bool) -> None:
    await check_paid(load_app(APP), GENERATOR, 30, strict=strict, grows=True)


@pytest.mark.long
@pytest.mark.parametrize("strict", [False, True])
async def test_ten_thousand_rows_of_each_difficulty_are_paid(strict: bool) -> None:
    await check_paid(load_app(APP), GENERATOR, 10_000, strict=strict)
