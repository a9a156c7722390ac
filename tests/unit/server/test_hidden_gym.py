"""OpenAI's gym beside ours: a server says so before it starts, and code that means it gets an error that helps."""

from __future__ import annotations

from pathlib import Path

import pytest

import gym
from gym.errors import UserError
from gym.server.serve import load_app


def install(folder: Path, name: str, version: str, requires: str = "") -> None:
    (info := folder / f"{name}-{version}.dist-info").mkdir()
    wants = f"Requires-Dist: {requires}\n" if requires else ""
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{wants}")


def test_a_server_whose_requirements_bring_openai_s_gym_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app.py").write_text("app = object()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    install(tmp_path, "old_games", "1.0", "gym (>=0.21)")
    install(tmp_path, "new_games", "1.0", "gymnasium>=1")
    install(tmp_path, "some_games", "1.0", 'gym>=0.21; extra == "old"')
    assert load_app(tmp_path / "app.py") is not None
    install(tmp_path, "gym", "0.26.2")
    with pytest.raises(UserError, match=r"OpenAI's gym 0\.26\.2 is installed .*\(old_games requires it\)") as caught:
        load_app(tmp_path / "app.py")
    assert "import gymnasium as gym" in caught.value.hint


@pytest.mark.parametrize("code", ["import gym; gym.make", "from gym import spaces", "import gym; gym.Env"])
def test_code_that_means_openai_s_gym_gets_an_error_with_what_to_write(code: str) -> None:
    with pytest.raises(ImportError, match="write `import gymnasium as gym`"):
        exec(code, {})


def test_other_names_are_missing_as_usual() -> None:
    assert not hasattr(gym, "nothing_of_this_name")
