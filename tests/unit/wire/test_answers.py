"""Where an answer stands in a text, however long and however broken the text is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym.wire.answers import (
    balanced_braces,
    cut_out,
    fenced_blocks,
    last_boxed,
    plain_lines,
    repeats_only,
    says_something,
    without_blocks,
)

LONG = 200_000


@pytest.mark.parametrize(
    ("text", "content"),
    [
        (r"\boxed{a} \boxed{b}", "b"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{\boxed{a}}", "a"),
        (r"\boxed{a} \boxed{", "a"),
        (r"} \boxed{}", ""),
        ("a", None),
        (r"\boxed{" * LONG, None),
    ],
)
def test_the_last_box_that_closes_counts(text: str, content: str | None) -> None:
    assert last_boxed(text) == content


@given(st.lists(st.sampled_from(["{", "}", "\\boxed{", "\\boxed", "boxed{", "\\", "x"]), max_size=20).map("".join))
def test_a_box_closes_where_its_braces_balance(text: str) -> None:
    opened: list[int] = []
    boxes: list[tuple[int, int]] = []
    for sign in re.finditer(r"\\boxed\{|[{}]", text):
        if sign.group() != "}":
            opened.append(sign.end() if len(sign.group()) > 1 else -1)
        elif opened:
            boxes.append((opened.pop(), sign.start()))
    begin, end = max(boxes, default=(-1, -1))
    assert last_boxed(text) == (text[begin:end] if begin >= 0 else None)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a<t>b</t>c<t>d</t>", "ac"),
        ("b</t>c", "c"),
        ("a<t>b", "a<t>b"),
        ("a<t>b</t>c</t>d", "d"),
        ("", ""),
        ("<t>" * LONG, "<t>" * LONG),
        ("</t>" * 3, "</t></t>"),
    ],
)
def test_blocks_are_taken_out_and_so_is_what_was_never_opened(text: str, left: str) -> None:
    assert without_blocks(text, "t") == left


@pytest.mark.parametrize(
    ("text", "language", "blocks"),
    [
        ("```python\na\n``` ```python\nb\n```", "python", ["a\n", "b\n"]),
        ("```\na\n```", "python", []),
        ("```\na\n```", "", ["a\n"]),
        ("```python\nnever", "python", []),
        ("```python \na\n```python\nb", "python", ["a\n"]),
        ("```pythonic\na\n```", "python", []),
        ("```python\n" * LONG, "python", None),
    ],
)
def test_fenced_blocks_come_in_order(text: str, language: str, blocks: list[str] | None) -> None:
    found = fenced_blocks(text, language)
    assert found == blocks if blocks is not None else len(found) == LONG // 2


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('x {"a": {}} y {b}', ['{"a": {}}', "{b}"]),
        ("} {a}", ["{a}"]),
        ("{a} {b", ["{a}"]),
        ("{{}", []),
        ("{" * LONG, []),
    ],
)
def test_outermost_braces_come_in_order(text: str, found: list[str]) -> None:
    assert balanced_braces(text) == found


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("a<t>b</t>c<t>\nd</t>", ["b", "\nd"], "ac"),
        ("<t>a<t>b</t></t>", ["a<t>b"], "</t>"),
        ("<t></t>", [""], ""),
        ("</t>a<t>b", [], "</t>a<t>b"),
        ("", [], ""),
    ],
)
def test_what_stands_between_two_marks_is_cut_out(text: str, inside: list[str], outside: str) -> None:
    assert cut_out(text, "<t>", "</t>") == (inside, outside)


@pytest.mark.parametrize("piece", ["<t>", "</t>", "<t></t>"])
def test_marks_without_end_are_cut_in_one_pass(piece: str) -> None:
    assert len("".join(cut_out(piece * LONG, "<t>", "</t>")[0])) == 0


@pytest.mark.parametrize("text", ["", " \n", "...", '""', "🙂", "½①", "\u200b\ufeff", "\u3164", "_", "\u0301"])
def test_blanks_signs_and_emoji_say_nothing(text: str) -> None:
    assert not says_something(text)
    assert says_something(f"{text}a")


def test_a_letter_of_any_script_or_a_digit_says_something() -> None:
    assert all(map(says_something, ("é", "二", "٣", "7")))


@pytest.mark.parametrize(
    ("text", "prompt", "repeated"),
    [
        ("Say hi.", "Say hi.", True),
        ("> **SAY HI**\r\nsay hi", "Say hi.", True),
        ("Say hi. Hi!", "Say hi.", False),
        ("Hi", "Say hi.", False),
        ("", "Say hi.", False),
        ("...", "...", False),
        ("a" * LONG, "a", True),
    ],
)
def test_a_prompt_that_is_repeated_is_seen_whatever_stands_around_it(text: str, prompt: str, repeated: bool) -> None:
    assert repeats_only(text, prompt) is repeated


def test_lines_end_in_one_way_and_one_empty_line_is_enough() -> None:
    assert plain_lines("\ufeff\r\n \n  a\r\nb\r\n\t\r\n\r\n\r\nc \rd\n \n") == "  a\nb\n\nc \nd"
    assert plain_lines("\n " * LONG) == ""
    assert len(plain_lines("a\n" * LONG)) == 2 * LONG - 1
