"""What a wrong word on a command line is answered with."""

from __future__ import annotations

import pytest

from gym.cli.main import run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("new resource mine", "'resource' is not one of"),
        ("rollouts rows.jsonl -o out.jsonl --repeats many", "must be a whole number"),
        ("up mcqa --port 70000", "must be less than or equal to 65535"),
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
