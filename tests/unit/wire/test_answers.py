"""Where an answer stands in a text, however long and however broken the text is."""

from __future__ import annotations

import pytest

from gym.wire.answers import balanced_braces, cut_out, fenced_blocks, last_boxed, without_blocks

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
def test_blocks_are_taken_out_and_so_is_what_nobody_opened(text: str, left: str) -> None:
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
