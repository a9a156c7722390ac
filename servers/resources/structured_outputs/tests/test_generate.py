"""Made rows of structured_outputs: the prompt gives the record, its document conforms, a broken one does not."""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from conforming import conform_text
from generate import LEVELS, StructuredOutputsGenerator, leaves

from gym.server.generating import Made, generate
from gym.server.serve import load_app
from gym.server.testing.made_rows import check_paid, check_repeatable

APP = Path(__file__).parents[1] / "app.py"
GENERATOR = StructuredOutputsGenerator()


def made(count: int, difficulty: str) -> list[Made]:
    return list(generate(GENERATOR, count, seed=5, split="train", difficulty=difficulty))


def prompt_of(one: Made) -> str:
    text: str = one.row["responses_create_params"]["input"][0]["content"]
    return text


def from_xml(element: ElementTree.Element) -> Any:
    """Texts at the leaves; lists where all children are items."""
    children = list(element)
    if not children:
        return element.text
    if all(child.tag == "item" for child in children):
        return [from_xml(child) for child in children]
    return {child.tag: from_xml(child) for child in children}


def texts(value: Any) -> Any:
    """A value with its leaves as XML and CSV write them."""
    if isinstance(value, dict):
        return {key: texts(one) for key, one in value.items()}
    if isinstance(value, list):
        return [texts(one) for one in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


READERS: dict[str, Callable[[str], Any]] = {
    "json": json.loads,
    "yaml": yaml.safe_load,
    "toml": tomllib.loads,
    "xml": lambda text: {(root := ElementTree.fromstring(text)).tag: from_xml(root)},
    "csv": lambda text: list(csv.DictReader(text.splitlines())),
}


@pytest.mark.parametrize("difficulty", LEVELS)
def test_another_reader_finds_the_record_in_the_document_and_each_value_stands_in_the_prompt(difficulty: str) -> None:
    for one in made(150, difficulty):
        kind, _domain, value = json.loads(one.key)
        read = READERS[kind](one.answer)
        assert read == (texts(value) if kind in ("xml", "csv") else value)
        said = prompt_of(one)
        values = [{True: "yes", False: "no"}[leaf] if isinstance(leaf, bool) else str(leaf) for leaf in leaves(value)]
        assert all(leaf in said for leaf in values)
        assert one.row["schema_str"] in said


@pytest.mark.parametrize("difficulty", LEVELS)
@pytest.mark.parametrize("strict", [False, True])
def test_a_document_of_another_row_a_cut_one_and_one_with_words_around_it_do_not_conform(
    difficulty: str, strict: bool
) -> None:
    rows = made(100, difficulty)
    for one, other in zip(rows, [*rows[1:], rows[0]], strict=True):
        for wrong in (other.answer, one.answer[: len(one.answer) // 3], f"Here it is:\n\n{one.answer}\nDone."):
            fault = conform_text(wrong, one.row["schema_str"], one.row["schema_type"], True, strict)
            assert fault != ("", ""), (one.row["schema_type"], wrong)


def test_the_same_seed_makes_the_same_rows_in_every_format() -> None:
    rows = [one.row for one in check_repeatable(GENERATOR, "hard", 60)]
    assert {row["schema_type"] for row in rows} == {"json", "yaml", "toml", "xml", "csv"}
    assert len({row["id"] for row in rows}) == 60


def test_a_harder_record_has_more_values_and_lies_deeper() -> None:
    counts = [fmean(one.row["schema_fields_count"] for one in made(200, difficulty)) for difficulty in LEVELS]
    assert all(more > 1.5 * less for less, more in zip(counts, counts[1:], strict=False)), counts


@pytest.mark.parametrize("strict", [False, True])
async def test_the_verifier_pays_every_solution_and_no_empty_answer(strict: bool) -> None:
    await check_paid(load_app(APP), GENERATOR, 20, strict=strict, grows=True)


@pytest.mark.long
@pytest.mark.parametrize("strict", [False, True])
async def test_ten_thousand_rows_of_each_difficulty_are_paid(strict: bool) -> None:
    await check_paid(load_app(APP), GENERATOR, 10_000, strict=strict)
