"""What a wrong word on a command line is answered with."""

from __future__ import annotations

import pytest

from gym.cli.main import run
from gym.cli.plain_help import INSTEAD


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("new resource mine", "'resource' is not one of"),
        ("rollouts rows.jsonl -o out.jsonl --repeats many", "must be a whole number"),
        ("up mcqa --port 70000", "must be less than or equal to 65535"),
        ("diff mcqa", "No such command 'diff'. Here it is: gym render NAMES --diff."),
        ("stop", "No such command 'stop'. Here it is: gym down."),
    ],
)
def test_a_wrong_word_is_refused_in_the_words_of_a_command_line(
    words: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words.split()) == 2
    shown = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert said in shown
    assert "Value error" not in shown
    assert "Input should" not in shown


@pytest.mark.parametrize("word", INSTEAD)
def test_what_a_word_of_another_program_is_answered_with_can_be_typed(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command that is named is there, and has the options that are named with it."""
    named = [part.split(",")[0].split() for part in INSTEAD[word].split("gym ")[1:]]
    assert named
    for words in named:
        command = words[:2] if words[0] in ("data", "new") else words[:1]
        assert run([*command, "-h"]) == 0
        shown = capsys.readouterr().out
        assert all(option in shown for option in words if option.startswith("-"))
