"""Which letter is read out of which answer."""

from __future__ import annotations

import random
import time

import pytest
from grading import GradingMode, extract_answer, strict_answer

from gym.wire.answers import last_boxed
from gym.wire.choices import Options, match_to_answer

OPTIONS = Options.of([{"A": "Paris"}, {"B": "Rome"}, {"C": "New  York"}, {"D": None}, {"EE": "Oslo"}])
MODES: tuple[GradingMode, ...] = (
    *("strict_single_letter_boxed", "lenient_boxed"),
    *("lenient_answer_colon", "lenient_answer_colon_md"),
)


def test_an_option_needs_a_single_letter_and_a_text() -> None:
    assert dict(OPTIONS.texts) == {"A": "paris", "B": "rome", "C": "new york"}
    assert dict(Options.of([{"b": 4}]).texts) == {"B": "4"}


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed{B}", "B"),
        (r"\boxed{A} no, \boxed{B}", "B"),
        (r"\boxed{B} and \boxed{", "B"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\boxed{B}}", "B"),
        (r"} \boxed{B}", "B"),
        (r"\boxed{}", ""),
        (r"\boxed{\boxed{B}", "B"),
        ("no box", None),
        (r"\boxed{open", None),
    ],
)
def test_the_last_balanced_box_counts(text: str, content: str | None) -> None:
    assert last_boxed(text) == content


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        (r"so \boxed{B}", "B"),
        (r"\boxed{ (B) }", "B"),
        (r"\boxed{\text{B}}", "B"),
        (r"\boxed{\text{ \text{B} }}", "B"),
        (r"\boxed{B: Rome}", "B"),
        (r"\boxed{B) Rome}", "B"),
        (r"\boxed{B. Rome}", "B"),
        (r"\boxed{B - Rome}", "B"),
        (r"\boxed{A} \boxed{B}", "B"),
        (r"\boxed{b}", None),
        (r"\boxed{\mathrm{B}}", None),
        (r"\boxed{B Rome}", None),
        (r"\boxed{AB}", None),
        (r"\boxed{A, B}", None),
        (r"\boxed{D}", None),
        (r"\boxed{B} \boxed{}", None),
        ("B", None),
    ],
)
def test_strict_wants_one_capital_in_the_last_box(text: str, letter: str | None) -> None:
    assert extract_answer(text, OPTIONS, "strict_single_letter_boxed") == letter


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        (r"\boxed{b}", "B"),
        (r"\boxed{\mathrm{B}}", "B"),
        (r"\boxed{\textbf{ \mathbf{b} }}", "B"),
        (r"\boxed{B} \boxed{ }", "B"),
        (r"\boxed{A} \boxed{b}", "B"),
        (r"\boxed{\mathrm{d}}", None),
        (r"\boxed{\mathrm{A, B}}", None),
        (r"\boxed{\frac{B}{A}}", None),
        (r"\boxed{}", None),
        ("b", None),
    ],
)
def test_strict_reads_a_letter_in_a_typeface_or_before_an_empty_box(text: str, letter: str | None) -> None:
    assert extract_answer(text, OPTIONS, "strict_single_letter_boxed") is None
    assert strict_answer(text, OPTIONS, "strict_single_letter_boxed") == letter
    assert strict_answer(text, OPTIONS, "lenient_answer_colon") is None


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        (r"\boxed{B}", "B"),
        (r"\boxed{rome}", "B"),
        (r"\boxed{\text{it is new york}}", "C"),
        (r"\boxed{Paris or Rome}", None),
        (r"\boxed{Oslo}", None),
        (r"\boxed{}", None),
        ("Rome", None),
    ],
)
def test_lenient_takes_the_only_option_whose_text_stands_in_the_box(text: str, letter: str | None) -> None:
    assert extract_answer(text, OPTIONS, "lenient_boxed") == letter


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("Answer: B", "B"),
        ("answer :  b ", "B"),
        ("The answer:\nB", "B"),
        (r"Answer: \text{B}", "B"),
        ("Answer: Rome", "B"),
        ("Answer: NEW york", "C"),
        ("Answer: A\nAnswer: B", "A"),
        ("Answer: B.", None),
        ("Answer: B Rome", None),
        ("Answer: D", None),
        ("Answer:", None),
        ("B", None),
    ],
)
def test_answer_colon_reads_the_first_answer_line(text: str, letter: str | None) -> None:
    assert extract_answer(text, OPTIONS, "lenient_answer_colon") == letter


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("**Answer:** B", "B"),
        ("**Answer: B**", "B"),
        ("Answer: **b**", "B"),
        ("__Answer__: (B)", "B"),
        ("Answer: B. Rome, of course", "B"),
        ("Answer: B because it is old", "B"),
        ("Answer: it is B", "B"),
        ("Answer: I think it is B", None),  # a leading letter is taken at its word
        ("Answer: not A but B", "B"),
        ("Answer: b) Rome", "B"),
        ("Answer: B B", "B"),
        ("Answer: B, a town", None),  # two options beside one another
        ("Answer: between A and B", None),
        ("Answer: ب", "B"),
        ("Ａｎｓｗｅｒ： Ｂ", "B"),
        ("Answer: B, or so I think", "B"),
        (r"Answer: $\boxed{B}$", "B"),
        ("Answer: A\n\nAnswer: B", "B"),
        ("Answer: B\n\nAnswer: unsure", "B"),
        ("Answer: A or B", None),
        ("Answer: A, B and C", None),
        ("Answer: A / B", None),
        ("Answer: D", None),
        ("Answer: none of these", None),
        ("Answer:\nB", "B"),
        ("Answer:\n\n\nB", None),
        ("B", None),
    ],
)
def test_answer_colon_md_looks_through_markdown_from_the_last_line_up(text: str, letter: str | None) -> None:
    assert extract_answer(text, OPTIONS, "lenient_answer_colon_md") == letter


@pytest.mark.parametrize(
    ("groups", "letter"),
    [
        (["b"], "B"),
        ([" B "], "B"),
        (["D"], "D"),  # a pattern is taken at its word
        (["Z"], "Z"),
        (["ب"], "B"),
        (["খ"], "B"),
        (["Ｂ"], "B"),
        (["ｂ"], "B"),
        (["new york"], "C"),
        (["york"], None),
        ([None, "B"], "B"),
        (["Answer", "B"], "B"),
        ([""], None),
        ([None], None),
    ],
)
def test_what_a_pattern_caught_is_a_letter_or_the_text_of_an_option(
    groups: list[str | None], letter: str | None
) -> None:
    assert match_to_answer(groups, OPTIONS) == letter


@pytest.mark.parametrize("mode", MODES)
def test_without_options_nothing_is_right(mode: GradingMode) -> None:
    assert extract_answer(r"Answer: B \boxed{B}", Options.of([]), mode) is None


@pytest.mark.parametrize("mode", MODES)
def test_any_text_gives_an_allowed_letter_or_none(mode: GradingMode) -> None:
    pieces = [
        r"\boxed{",
        r"\text{",
        "}",
        "{",
        "Answer:",
        "answer",
        "A",
        "B",
        "D",
        "paris",
        "or",
        "*",
        ".",
        ")",
        " ",
        "\n",
    ]
    dice = random.Random(0)
    found = {extract_answer("".join(dice.choices(pieces, k=12)), OPTIONS, mode) for _ in range(2000)}
    assert found <= {"A", "B", "C", None}
    assert len(found) > 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("piece", [r"\boxed{", "}", "{", r"\text{", "Answer:", "answer ", "*", "(A", " ", "A,"])
def test_a_long_answer_made_to_be_slow_is_not(mode: GradingMode, piece: str) -> None:
    text = r"\boxed{" + piece * (200_000 // len(piece)) + "}"
    begun = time.process_time()
    extract_answer(text, OPTIONS, mode)
    assert time.process_time() - begun < 5.0  # linear: tens of milliseconds; quadratic: minutes


@pytest.mark.parametrize(
    ("said", "letter"),
    [
        *(
            ("B", "B"),
            ("**B**", "B"),
            ("(b).", "B"),
            ("B) Rome", "B"),
            ("Rome", "B"),
            ("Option B", "B"),
            ("it is (B)", "B"),
        ),
        *(("$\\text{B}$", "B"), ("B, since it lies on the Tiber", "B")),
        *(
            (one, None)
            for one in ("not B", "neither A nor B", "(A) (B)", "A or B", "A = B", "A, B", "A/B", "A B C", "B or C")
        ),
        *(
            (one, None)
            for one in ("anything but B", "B is wrong", "B) Paris", "either B", "B, not A", "D", "maybe B or so")
        ),
    ],
)
@pytest.mark.parametrize(
    ("mode", "form"),
    [
        ("strict_single_letter_boxed", r"So \boxed{{{}}}."),
        ("lenient_boxed", r"So \boxed{{{}}}."),
        ("lenient_answer_colon", "Answer: {}"),
        ("lenient_answer_colon_md", "**Answer:** {}"),
    ],
)
def test_strict_takes_a_slot_that_names_one_option_in_every_mode(
    said: str, letter: str | None, mode: GradingMode, form: str
) -> None:
    assert strict_answer(form.format(said), OPTIONS, mode) == letter


@pytest.mark.parametrize("mode", ["lenient_answer_colon", "lenient_answer_colon_md"])
def test_strict_reads_the_last_answer_line_that_says_something(mode: GradingMode) -> None:
    assert strict_answer("Answer: A\nNo.\n**Answer: B**\r\n", OPTIONS, mode) == "B"
    assert strict_answer("Answer: B\nI put it behind `Answer:` as asked.", OPTIONS, mode) == "B"
    assert strict_answer("Answer: B\nNo wait, that is wrong.", OPTIONS, mode) is None
    assert strict_answer("Wrong answer: B", OPTIONS, mode) is None
