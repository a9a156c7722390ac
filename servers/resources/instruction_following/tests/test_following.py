"""Every instruction, followed and not; any text and any kwargs; answers made to be slow."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest
from following import follow, variants
from given import CHECKS, Given, Unusable
from hypothesis import given, settings
from hypothesis import strategies as st
from instruction_samples import IFBENCH, IFEVAL, IFTRAIN, SAMPLES, Sample

NUMBERS = st.integers(-3, 40) | st.floats(allow_nan=False) | st.booleans()
KWARGS = {name for _id, kwargs, _good, _bad in SAMPLES for name in kwargs}
VALUES = st.text(max_size=8) | NUMBERS | st.none() | st.lists(st.text(max_size=4), max_size=2) | st.just("at least")
PIECES = [
    "a",
    "B",
    "\n",
    "\n\n",
    " ",
    ". ",
    "? ",
    "!",
    ",",
    "***",
    "******",
    "* ",
    "- ",
    "[",
    "]",
    "<<",
    ">>",
    '"',
    "'",
]
TEXTS = st.text(max_size=40) | st.lists(
    st.sampled_from([*PIECES, "é", "二", "🙂", "(", "}", "1", "x"]), max_size=20
).map("".join)


def test_all_instructions_of_the_three_sets_are_here_and_tried() -> None:
    assert [len(IFEVAL), len(IFTRAIN), len(IFBENCH)] == [25, 29, 58]
    assert {sample[0] for sample in SAMPLES} == set(CHECKS)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample[0])
def test_an_instruction_is_followed_by_one_answer_and_not_by_the_other(sample: Sample) -> None:
    instruction, kwargs, good, bad = sample
    assert CHECKS[instruction](good, Given(kwargs)), good
    assert not CHECKS[instruction](bad, Given(kwargs)), bad


def test_what_opens_a_quotation_is_another_token_than_what_closes_it() -> None:
    assert not CHECKS["keywords:start_end"]('"Any answer at all in quotes"', Given({}))
    assert CHECKS["count:count_unique"]('no "word" twice', Given({}))
    assert not CHECKS["count:count_unique"]('no "word" word', Given({}))


@pytest.mark.parametrize(
    ("instruction", "kwargs", "text", "lax", "strict"),
    [
        ("keywords:start_end", {}, "**Any text at all**", True, False),
        ("keywords:start_end", {}, "'Any text at all'", True, False),
        ("keywords:start_end", {}, "Tea is tea", True, True),
        ("count:count_unique", {}, 'A "cup", a "jug", one pan.', False, False),
        ("count:count_unique", {}, 'A "cup", one "jug", two pans.', False, True),
        ("keywords:keyword_specific_position", {"keyword": "tea", "n": 1, "m": 4}, "So, I drink tea.", False, True),
        ("words:keywords_specific_position", {"keyword": "tea", "n": 1, "m": 4}, 'I drink "Tea".', True, False),
        ("count:counting_composition", {"n_sent": 1, "n_words": 2}, "I am.\n***\nI was.\n***\nI go.", False, True),
        ("keywords:palindrome", {}, "This is a text", True, False),
        ("keywords:palindrome", {}, "So it has a Level.", True, True),
        ("detectable_format:bigram_wrapping", {}, "text", True, False),
        ("detectable_format:sentence_hyphens", {}, "Any text.", True, False),
    ],
)
def test_what_strict_sees_and_the_reference_does_not(
    instruction: str, kwargs: dict[str, Any], text: str, lax: bool, strict: bool
) -> None:
    assert [CHECKS[instruction](text, Given(kwargs, strict=one)) for one in (False, True)] == [lax, strict]


@pytest.mark.parametrize("sample", [one for one in SAMPLES if one[1]], ids=lambda sample: sample[0])
def test_an_instruction_without_its_kwargs_is_not_followed_and_says_what_is_missing(sample: Sample) -> None:
    instruction, kwargs, good, _bad = sample
    result = follow(good, [instruction], [None], empty_follows=True, loose=False)
    assert result["followed"] == [False]
    assert any(f"kwargs.{name} is missing" in result["reason"] for name in kwargs)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample[0])
def test_numbers_of_a_data_set_may_be_floats_and_unused_kwargs_null(sample: Sample) -> None:
    instruction, kwargs, good, _bad = sample
    floats = {name: float(value) if isinstance(value, int) else value for name, value in kwargs.items()}
    result = follow(good, [instruction], [dict.fromkeys(KWARGS) | floats], empty_follows=True, loose=False)
    assert result == {"followed": [True], "reason": ""}


@settings(max_examples=60, deadline=None, derandomize=True)
@given(text=TEXTS, kwargs=st.dictionaries(st.sampled_from(sorted(KWARGS)), VALUES))
def test_whatever_is_answered_and_asked_a_check_gives_yes_no_or_a_bad_kwarg(text: str, kwargs: dict[str, Any]) -> None:
    for instruction, own, _good, _bad in SAMPLES:
        for asked in (own, kwargs, own | kwargs):
            with suppress(Unusable):
                assert isinstance(CHECKS[instruction](text, Given(asked)), bool)


SLOW = ["a", " ", "\n", "*", "[", "<<", ".", "a. ", '"', "-", "P.S", "Section 1", "<i>", "(", "Question 1 ", "the big "]


@pytest.mark.parametrize("piece", SLOW)
def test_a_long_answer_made_to_be_slow_is_not(piece: str) -> None:
    text = piece * (100_000 // len(piece))
    for instruction, kwargs, _good, _bad in SAMPLES:
        begun = time.process_time()
        follow(text, [instruction], [kwargs], empty_follows=True, loose=False)
        assert time.process_time() - begun < 5.0, instruction  # linear: far below one; quadratic: minutes


def test_an_unknown_instruction_is_not_followed_and_is_named() -> None:
    result = follow("Hi", ["no:such", "punctuation:no_comma"], [None, None], empty_follows=True, loose=False)
    assert result == {"followed": [False, True], "reason": "no:such: no such instruction"}


def test_an_empty_answer_follows_what_forbids_only_where_that_is_allowed() -> None:
    for allowed in (True, False):
        result = follow("", ["punctuation:no_comma"], [{}], empty_follows=allowed, loose=False)
        assert result["followed"] == [allowed]


def test_loosely_a_first_or_last_line_and_stars_do_not_count() -> None:
    assert variants("a\n*b*\nc")[1:4] == ["*b*\nc", "a\n*b*", "*b*"]
    text = 'Sure!\n**"Hi"**\nBye'
    result = follow(text, ["startend:quotation"], [{}], empty_follows=True, loose=True)
    assert (result["followed"], result["followed_loosely"]) == ([False], [True])
    blank = follow("a,\n", ["punctuation:no_comma"], [{}], empty_follows=True, loose=True)
    assert blank["followed_loosely"] == [False]  # an empty variant follows nothing
