"""What was typed, as the config module takes it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gym.cli import caller_token, stack_request
from gym.errors import UserError
from gym.files import own_root


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_request_holds_what_was_typed(here: Path) -> None:
    request = stack_request.load_request(
        ["mcqa", "a.b=1"], model="openai", files=[Path("x.yaml")], replicas=["mcqa=2"], environ={}
    )
    assert (request.names, request.overrides) == (("mcqa",), ("a.b=1",))
    assert (request.model, request.files, request.replicas) == ("openai", (Path("x.yaml"),), {"mcqa": 2})
    assert request.cwd == here
    assert here in request.roots


def test_a_server_named_by_its_folder_is_started_from_there(here: Path) -> None:
    own = here / "mine" / "mcqa"
    shutil.copytree(own_root() / "servers" / "resources" / "mcqa", own)
    request = stack_request.load_request(["mine/mcqa/"], environ={})
    assert (request.names, request.roots[0]) == (("mcqa",), own)
    loaded = stack_request.load_named(["mine/mcqa/"], model="scripted", environ={})
    assert {one.name: one.directory for one in loaded.instances}["mcqa"] == own


def test_config_paths_on_the_command_line_or_in_env_yaml_name_servers(here: Path) -> None:
    with pytest.raises(UserError, match="Nothing is named"):
        stack_request.load_named(["a.b=1"], environ={})
    typed = stack_request.load_named(["+config_paths=[resources_servers/mcqa/configs/mcqa.yaml]"], environ={})
    assert "mcqa_simple_agent" in {one.name for one in typed.instances}
    (here / "env.yaml").write_text("config_paths: [resources_servers/mcqa/configs/mcqa.yaml]\n")
    assert stack_request.load_named([], environ={}).instances == typed.instances


def test_a_token_comes_from_a_file_or_the_environment_and_is_never_empty(here: Path) -> None:
    (here / "token").write_text("  abc\n")
    (here / "empty").write_text("\n")
    assert caller_token.read_token(here / "token", {"GYM_TOKEN": "other"}) == "abc"
    assert caller_token.read_token(None, {"GYM_TOKEN": "other"}) == "other"
    assert caller_token.read_token(None, {}) == ""
    for name in ("empty", "absent"):
        with pytest.raises(UserError, match=name):
            caller_token.read_token(here / name, {})
