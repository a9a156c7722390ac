from __future__ import annotations

from pathlib import Path

import pytest

from gym.console.console_settings import read_settings
from gym.errors import UserError


def test_the_environment_says_it_all(tmp_path: Path) -> None:
    settings = read_settings(
        {"GYM_DISCOVERY": "d.json", "GYM_CONSOLE_CONFIG": "c.json", "GYM_LISTEN": "fd:3", "GYM_TOKEN": " hush\n"}
    )
    assert (settings.discovery, settings.config, settings.listen, settings.token) == (
        "d.json",
        Path("c.json"),
        "fd:3",
        "hush",
    )
    assert "hush" not in repr(settings)


def test_a_token_file_wins_over_the_variable(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("from the file\n")
    environ = {"GYM_DISCOVERY": "d.json", "GYM_TOKEN": "from the variable", "GYM_TOKEN_FILE": str(path)}
    assert read_settings(environ).token == "from the file"


def test_a_token_file_that_is_missing_or_empty_is_an_error_and_not_an_open_door(tmp_path: Path) -> None:
    path = tmp_path / "token"
    with pytest.raises(UserError, match="cannot be read"):
        read_settings({"GYM_DISCOVERY": "d.json", "GYM_TOKEN_FILE": str(path)})
    path.write_text("\n")
    with pytest.raises(UserError, match="is empty"):
        read_settings({"GYM_DISCOVERY": "d.json", "GYM_TOKEN_FILE": str(path)})


def test_without_a_stack_to_show_it_says_who_starts_it() -> None:
    with pytest.raises(UserError, match="gym up"):
        read_settings({})
