r"""Where a strict verifier reads an answer: the last slot that holds something, in whatever Markdown."""

from __future__ import annotations

import time

import pytest

from gym.server.slots import kept, last_box, last_line, last_pair, plain_number, unwrapped

LONG = 1_000_000


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed{1} no, \boxed{2}", "2"),
        (r"\boxed{7} I put it in \boxed{} as asked.", "7"),
        (r"I will put the final answer in \boxed{}. r = 5, area \boxed{25\pi}", r"25\pi"),
        (r"\boxed{7}, inside \boxed{...}, \boxed{\text{ }}, \boxed{…} and \boxed{\ldots}", "7"),
        (r"\boxed{\frac{1}{2}} \boxed{3", r"\frac{1}{2}"),
        (r"\boxed{\boxed{4}}", "4"),
        (r"\boxed{\boxed{}5}", r"\boxed{}5"),
        (r"} \boxed{ { 6 }", None),
        (r"{ } { \boxed{6}", "6"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{x = \left\{ 1 \right.}", r"x = \left\{ 1 \right."),
        (r"\\boxed{8}", "8"),
        (r"\boxed {9}", "9"),
        (r"\boxed{}", None),
        ("boxed{1}", None),
        ("", None),
    ],
)
def test_the_last_box_that_closes_and_holds_something_counts(text: str, content: str | None) -> None:
    found = last_box(text)
    assert (found.content if found else None) == content


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("Final answer: **360**", "360"),
        ("**Final answer:** 360", "360"),
        ("**Final Answer**: `360`", "360"),
        ("**Final answer: 360**", "360"),
        ("### Answer:\n\n360\nThat is all.", "360"),
        ("Answer: 12\r\nFinal answer: 360\r\n", "360"),
        ("Answer： 360", "360"),
        ("Answer: 360\nI put it behind `Answer:` as asked.", "360"),
        ("Answer: 360\nWrong answer: 12", "360"),
        ("Answer: 360\nAnswer:", "360"),
        ("Final Answer: []", "[]"),
        ("Answer: 5 * 3", "5 * 3"),
        ("Answer:", None),
        ("the answer is 360", None),
    ],
)
def test_the_last_answer_line_that_says_something_counts_out_of_its_markdown(text: str, content: str | None) -> None:
    found = last_line(text)
    assert (found.content if found else None) == content


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("<answer>6</answer> no: <answer> 7 </answer>", "7"),
        ("inside <answer> tags: So <answer>7</answer>", "7"),
        ("<answer>7</answer><answer></answer>", "7"),
        ("<answer>7</answer> between <answer> and </answer>", "7"),
        ("<answer>and</answer>", "and"),
        ("<ANSWER>7</Answer>", "7"),
        ("</answer><answer>7</answer></answer>", "7"),
        ("<answer>7", None),
    ],
)
def test_the_last_pair_that_holds_something_counts(text: str, content: str | None) -> None:
    found = last_pair(text, "answer")
    assert (found.content if found else None) == content


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"So it is \boxed{32}, which is even.", "32"),
        (r"Not 33 but \boxed{32}. Wait, let me check: 30 + 2 is 32.", "32"),
        (r"It is definitely not \boxed{32}", None),
        (r"x \neq \boxed{32}", None),
        (r"\boxed{32}. No wait, it is 33.", None),
        (r"\boxed{32} is wrong.", None),
        (r"\boxed{32}. Sorry, that was wrong.", None),
        (r"\boxed{32}. I take that back.", None),
        (r"\boxed{33}. No wait, \boxed{32}", "32"),
    ],
)
def test_a_slot_that_the_text_takes_back_is_none(text: str, content: str | None) -> None:
    assert kept(text, last_box(text)) == content


@pytest.mark.parametrize(
    "text",
    [
        "400",
        " 400. ",
        "**400**",
        "**400**.",
        "`400`",
        "$400$",
        "４００",
        r"\(400\)",
        r"\text{400}",
        r"$\mathbf{**400.**}$",
    ],
)
def test_what_is_wrapped_is_what_stands_in_it(text: str) -> None:
    assert unwrapped(text) == "400"


@pytest.mark.parametrize(
    ("text", "number"),
    [("7.0", "7"), ("1,234.50", "1234.5"), ("-3123", "-3123"), ("100", "100"), ("1,2", ""), ("7 or 8", ""), ("", "")],
)
def test_a_number_in_figures_is_read_in_its_formats(text: str, number: str) -> None:
    assert plain_number(text) == number


@pytest.mark.parametrize(
    "piece", [r"\boxed{", r"\boxed{}", r"\boxed{\boxed{}}", "{", "}", "Answer: ", "**", "answer", "<answer>", "a", "\n"]
)
def test_a_megabyte_of_anything_is_read_in_bounded_time(piece: str) -> None:
    text = piece * (LONG // len(piece))
    began = time.process_time()
    for slot in (last_box(text), last_line(text), last_pair(text, "answer")):
        unwrapped(slot.content if slot else text[:1000])
    assert time.process_time() - began < 20  # of CPU time; a search that goes over the rest at every step takes hours
