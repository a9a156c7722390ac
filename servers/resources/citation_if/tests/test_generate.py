"""Rows of citation_if made by program: the sources that answer are those that are to be cited, and no others are."""

from __future__ import annotations

import re
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from generate import GRAMMARS, LEVELS, CitationIfGenerator
from scoring import GRAMMARS as KNOWN
from scoring import score

from gym.server.generating import Made, generate
from gym.server.serve import load_app
from gym.server.testing.made_rows import check_paid, check_repeatable

APP = Path(__file__).parents[1] / "app.py"
GENERATOR = CitationIfGenerator()
HELD_OUT = {"curly_double", "angle_pipe"}
NAME = "([A-Z][a-z]+ [A-Z][a-z]+)"
OWNED = (
    "The {thing} belongs to {name}.",
    "{name} has been the owner of the {thing} since",
    "the {thing} was sold to {name},",
)
BORN = ("{name} was born in", "is where {name} was born", "Born in [A-Z][a-z]+, {name} left it in")


def made(count: int, difficulty: str) -> list[Made]:
    return list(generate(GENERATOR, count, seed=5, split="train", difficulty=difficulty))


def failed_gate(one: Made, text: str) -> str | None:
    gate: str | None = score(text, 0, one.row["verifier"])["gate_failed"]
    return gate


def read_sources(one: Made) -> dict[str, str]:
    asked: list[dict[str, Any]] = one.row["responses_create_params"]["input"]
    lines = [line for item in asked for line in item.get("output", "").splitlines()]
    return dict(line.split(": ", 1) for line in lines)


def solve(one: Made) -> set[str]:
    """The sources that the question needs, from the conversation alone."""
    question: str = one.row["responses_create_params"]["input"][1]["content"]
    sources = read_sources(one)
    needed: set[str] = set()
    for thing in re.findall(r"\bthe ([a-z]+ [a-z]+)(?=[,.?]| and | born| belongs)", question):
        for source, text in sources.items():
            for form in OWNED:
                if found := re.search(form.format(thing=thing, name=NAME), text):
                    needed.add(source)
                    needed |= _born(found[1], sources) if "born" in question else set()
    return needed


def _born(name: str, sources: dict[str, str]) -> set[str]:
    return {source for source, text in sources.items() if any(re.search(form.format(name=name), text) for form in BORN)}


@pytest.mark.parametrize("difficulty", LEVELS)
def test_who_reads_the_conversation_alone_finds_the_same_sources(difficulty: str) -> None:
    for one in made(300, difficulty):
        wanted = one.row["verifier"]
        assert set(read_sources(one)) == set(wanted["valid_id_set"])
        if wanted["mode"] == "cite":
            assert solve(one) == set(wanted["expected_ids"]), one.row["responses_create_params"]["input"][1]


@pytest.mark.parametrize("difficulty", LEVELS)
def test_a_source_less_one_too_many_one_that_is_none_and_another_grammar_fail_at_their_gates(difficulty: str) -> None:
    for one in made(300, difficulty):
        wanted = one.row["verifier"]
        assert failed_gate(one, one.answer) is None
        if wanted["mode"] == "no_cite":
            assert failed_gate(one, f"{one.answer} [{wanted['valid_id_set'][0]}]") == "no_cite"
            continue
        first, spare = wanted["expected_ids"][0], set(wanted["valid_id_set"]) - set(wanted["expected_ids"])
        more = "".join(cite(wanted["grammar"], source) for source in sorted(spare))
        less = one.answer.replace(first, wanted["expected_ids"][-1])
        assert failed_gate(one, f"{one.answer} {more}") in ("correctness_over_cap", None)
        assert (failed_gate(one, f"{one.answer} {more}") is None) == (len(spare) <= wanted["expected_slack"])
        assert failed_gate(one, one.answer.replace(first, "citation_zzzz:snippet_9"[: len(first)])) is not None
        assert failed_gate(one, f"It is {cite('curly_double', first)}.") == "malformed_attempt"
        assert failed_gate(one, f"It is {first}.") == "malformed_attempt"
        assert len(wanted["expected_ids"]) == 1 or failed_gate(one, less) == "correctness_missed_gold"


def cite(grammar: str, source: str) -> str:
    form = "{{{{{id}}}}}" if grammar == "curly_double" else GRAMMARS[grammar][0]
    return form.format(id=source, claim="so")


def test_all_grammars_but_those_held_out_are_asked_for_in_both_modes_and_of_both_kinds() -> None:
    wanted = [one.row["verifier"] for one in made(600, "easy")]
    assert {one["grammar"] for one in wanted} == set(GRAMMARS) == set(KNOWN) - HELD_OUT
    assert {one["mode"] for one in wanted} == {"cite", "no_cite"}
    assert {one["id_kind"] for one in wanted} == {"full_source", "snippet"}


def test_the_same_seed_makes_the_same_rows_and_splits_share_no_task() -> None:
    check_repeatable(GENERATOR, "hard", 60)


def test_a_harder_row_has_more_sources_and_needs_more_of_them() -> None:
    sources = [fmean(len(read_sources(one)) for one in made(200, difficulty)) for difficulty in LEVELS]
    needed = [fmean(len(one.row["verifier"]["expected_ids"] or ()) for one in made(200, level)) for level in LEVELS]
    for measured in (sources, needed):
        assert all(more > 1.5 * less for less, more in zip(measured, measured[1:], strict=False)), measured


@pytest.mark.parametrize("strict", [False, True])
async def test_the_verifier_pays_every_solution_and_no_empty_answer(strict: bool) -> None:
    await check_paid(load_app(APP), GENERATOR, 40, strict=strict, grows=True)


@pytest.mark.long
@pytest.mark.parametrize("strict", [False, True])
async def test_ten_thousand_rows_of_each_difficulty_are_paid(strict: bool) -> None:
    await check_paid(load_app(APP), GENERATOR, 10_000, strict=strict)
