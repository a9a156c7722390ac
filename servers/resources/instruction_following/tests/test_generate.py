"""Rows of instruction_following made by program: instructions that hold together, and are not held by chance."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from asking import WORDINGS
from following import follow
from generate import LEVELS, InstructionFollowingGenerator
from instruction_samples import IFEVAL, IFTRAIN

from gym.server.generating import Made, generate
from gym.server.serve import load_app
from gym.server.testing.made_rows import check_paid, check_repeatable

APP = Path(__file__).parents[1] / "app.py"
GENERATOR = InstructionFollowingGenerator()
CONSTANT = (
    "Yes",
    "I cannot help with that.",
    "ok",
    "{}",
    "a\n\nb",
    "One.\n***\nTwo.",
    "- a\n- b",
    "<<A>>",
    "The answer is 42.",
    "word " * 100,
)


def made(count: int, difficulty: str, seed: int = 5) -> list[Made]:
    return list(generate(GENERATOR, count, seed=seed, split="train", difficulty=difficulty))


def asked(one: Made) -> list[tuple[str, dict[str, Any]]]:
    metadata = one.row["verifier_metadata"]
    return list(zip(metadata["instruction_id_list"], metadata["kwargs"], strict=True))


def follows(one: Made, text: str) -> bool:
    ids, kwargs = zip(*asked(one), strict=True)
    return all(follow(text, ids, kwargs, empty_follows=True, loose=False)["followed"])


def compared(count: int, kwargs: dict[str, Any], name: str) -> bool:
    at_least = "at least" in kwargs.values()
    return bool(count >= kwargs[name]) if at_least else bool(count < kwargs[name])


def times(text: str, word: str) -> int:
    return len(text.lower().split(word)) - 1


# The same rules, written down a second time and naively.
RULES: dict[str, Callable[[str, dict[str, Any]], bool]] = {
    "number_words": lambda text, given: compared(
        len(re.sub(r"[^a-z0-9_ \nà-ÿ]", " ", text.lower()).split()), given, "num_words"
    ),
    "letter_frequency": lambda text, given: compared(times(text, given["letter"]), given, "let_frequency"),
    "letter_counting2": lambda text, given: compared(times(text, given["letter"]), given, "let_frequency"),
    "letter_counting": lambda text, given: compared(sum("a" <= one <= "z" for one in text.lower()), given, "N"),
    "existence": lambda text, given: all(word in text.lower() for word in given["keywords"]),
    "frequency": lambda text, given: compared(times(text, given["keyword"]), given, "frequency"),
    "word_count_different_numbers": lambda text, given: compared(times(text, given["keyword"]), given, "frequency"),
    "word_once": lambda text, given: times(text, given["keyword"]) == 1,
    "count_increment_word": lambda text, given: [times(text, given[f"keyword{at}"]) for at in (1, 2)] == [1, 2],
    "forbidden_words": lambda text, given: not set(re.findall("[a-z]+", text.lower())) & set(given["forbidden_words"]),
    "no_comma": lambda text, _: "," not in text,
    "punctuation_dot": lambda text, _: "." not in text,
    "punctuation_exclamation": lambda text, _: "!" not in text,
    "number_paragraphs": lambda text, given: text.count("\n***\n") + 1 == given["num_paragraphs"],
    "number_bullet_lists": lambda text, given: ("\n" + text).count("\n- ") == given["num_bullets"],
    "english_capital": lambda text, _: text == text.upper(),
    "english_lowercase": lambda text, _: text == text.lower(),
    "quotation": lambda text, _: text.startswith('"') and text.endswith('"'),
    "end_checker": lambda text, given: text.lower().rstrip('"').endswith(given["end_phrase"].lower()),
    "repeat_prompt": lambda text, given: text.lower().startswith(given["prompt_to_repeat"].lower()),
    "copy": lambda text, given: bool(text == given["prompt_to_repeat"]),
    "copying_simple": lambda text, given: bool(text == given["prompt_to_repeat"]),
    "copy_span_idx": lambda text, given: bool(text == given["prompt_to_repeat"][given["n_start"] : given["n_end"]]),
    "square_brackets": lambda text, _: re.fullmatch(r"(\[[^\s\[\]]+\] ?)+", text) is not None,
    "count_unique": lambda text, _: len(found := re.findall("[a-z]+", text.lower())) == len(set(found)),
}


@pytest.mark.parametrize("difficulty", LEVELS)
def test_the_answers_hold_by_rules_that_were_written_down_a_second_time(difficulty: str) -> None:
    instructions = [
        (one.partition(":")[2], kwargs, row.answer) for row in made(300, difficulty) for one, kwargs in asked(row)
    ]
    known = [one for one in instructions if one[0] in RULES]
    assert not [(name, kwargs, text) for name, kwargs, text in known if not RULES[name](text, kwargs)]
    assert len(known) > 0.5 * len(instructions)


def test_all_instructions_are_asked_for_but_the_one_that_the_modes_count_differently() -> None:
    instructions = {one for difficulty in LEVELS for row in made(600, difficulty) for one, _ in asked(row)}
    everything = {sample[0] for sample in (*IFEVAL, *IFTRAIN)}
    assert instructions == set(WORDINGS) == everything - {"count:counting_composition"}


@pytest.mark.parametrize("difficulty", LEVELS)
def test_no_row_is_followed_by_an_empty_answer(difficulty: str) -> None:
    assert not [asked(one) for one in made(1_000, difficulty) if follows(one, "")]


@pytest.mark.parametrize("difficulty", LEVELS)
def test_hardly_any_row_pays_for_an_answer_that_ignores_it(difficulty: str) -> None:
    rows = made(300, difficulty)
    paid = {text: sum(follows(one, text) for one in rows) / len(rows) for text in CONSTANT}
    assert max(paid.values()) < {"easy": 0.12, "medium": 0.02, "hard": 0.01}[difficulty], paid


def test_the_same_seed_makes_the_same_rows_and_no_id_comes_twice() -> None:
    rows = check_repeatable(GENERATOR, "medium", 100)
    assert len({one.row["id"] for one in rows}) == 100


def test_a_harder_row_has_more_instructions() -> None:
    counts = [fmean(len(asked(one)) for one in made(200, difficulty)) for difficulty in LEVELS]
    assert all(more > 1.5 * less for less, more in zip(counts, counts[1:], strict=False)), counts


@pytest.mark.parametrize("strict", [False, True])
async def test_the_verifier_pays_every_solution_and_no_empty_answer(strict: bool) -> None:
    await check_paid(load_app(APP), GENERATOR, 40, strict=strict, grows=True)


@pytest.mark.long
@pytest.mark.parametrize("strict", [False, True])
async def test_ten_thousand_rows_of_each_difficulty_are_paid(strict: bool) -> None:
    await check_paid(load_app(APP), GENERATOR, 10_000, strict=strict)
