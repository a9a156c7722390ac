"""Options of a row, and what a pattern caught."""

from __future__ import annotations

import pytest

from gym.wire.choices import Options, match_to_answer

OPTIONS = Options.of([{"a": "Paris"}, {"B": "New  York", "C": 7}, {"D": None}, {"EE": "Oslo"}])


def test_an_option_needs_a_single_letter_and_a_text() -> None:
    assert dict(OPTIONS.texts) == {"A": "paris", "B": "new york", "C": "7"}


@pytest.mark.parametrize(
    ("groups", "letter"),
    [
        (["b"], "B"),
        (["Z"], "Z"),
        (["new york"], "B"),
        ([None, "", " 7 "], "C"),
        (["Ｂ"], "B"),
        (["ب"], "B"),
        (["oslo"], None),
        ([], None),
    ],
)
def test_what_was_caught_is_a_letter_or_the_text_of_an_option(groups: list[str | None], letter: str | None) -> None:
    assert match_to_answer(groups, OPTIONS) == letter


def test_a_text_may_hold_only_one_option() -> None:
    assert OPTIONS.contained_in("it is in Paris") == "A"
    assert OPTIONS.contained_in("Paris or New York") is None
