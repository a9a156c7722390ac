"""An app.py that cannot be imported is described by its author's lines alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym.errors import UserError
from gym.server.serve import load_app

SERVER = (
    "from gym.server import ResourcesServer\nclass Mine(ResourcesServer[None]):\n    async def verify(self, rollout):\n"
)


def refusal(folder: Path, text: str) -> str:
    (folder / "app.py").write_text(text)
    with pytest.raises(UserError) as caught:
        load_app(folder / "app.py")
    return str(caught.value)


def test_a_syntax_error_is_one_line_with_its_place(tmp_path: Path) -> None:
    said = refusal(tmp_path, "import os\nx = (1,\n")
    assert said == "app.py:2: '(' was never closed\n    x = (1,"


def test_one_in_a_module_beside_it_is_named_by_that_file(tmp_path: Path) -> None:
    (tmp_path / "rules_beside_it.py").write_text("\ndef f(:\n    pass\n")
    assert refusal(tmp_path, "import rules_beside_it\n").startswith("rules_beside_it.py:2: ")


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("import os\nRATE = 1 / 0\n", "ZeroDivisionError: division by zero"),
        ("import os\nabsent\n", "NameError: name 'absent' is not defined"),
        ("import os\nexec('(')\n", "SyntaxError: '(' was never closed"),
    ],
)
def test_another_error_shows_the_authors_own_lines_alone(tmp_path: Path, text: str, last: str) -> None:
    said = refusal(tmp_path, text)
    assert said.startswith("app.py cannot be imported.\nTraceback (most recent call last):\n")
    assert f'File "{tmp_path}/app.py", line 2, in <module>' in said
    assert said.endswith(last)
    assert "importlib" not in said
    assert "serve.py" not in said


def test_what_led_to_it_is_shown_too(tmp_path: Path) -> None:
    text = "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise ValueError('no rate') from error\n"
    said = refusal(tmp_path, text)
    assert "ZeroDivisionError" in said
    assert said.endswith("ValueError: no rate")
    assert "serve.py" not in said


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("app = Mine", "app.py: `app = Mine` is a class, not an app.\nWrite `app = Mine.app()`."),
        ("app = Mine.app", "app.py: `app = Mine.app` is a method, not an app.\nWrite `app = Mine.app()`."),
    ],
)
def test_a_class_that_is_not_an_app_is_said_with_what_to_write(tmp_path: Path, end: str, said: str) -> None:
    assert refusal(tmp_path, f"{SERVER}        return 1.0\n{end}\n") == said


def test_a_class_that_is_an_app_of_its_own_is_taken(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("class app:\n    def __init__(self, scope, receive, send): ...\n")
    assert load_app(tmp_path / "app.py").__name__ == "app"
