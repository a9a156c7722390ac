"""Servers of a NeMo Gym checkout, copied into our layout: what is written otherwise, what is said, what stays."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gym.cli.migration import carry_out, find_sources, is_there_already, plan_move
from gym.errors import UserError
from tests.support.cli import gym

TREE = Path(__file__).parents[2] / "support" / "upstream_tree"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return shutil.copytree(TREE, tmp_path / "Gym")


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_server_a_type_and_a_whole_checkout_may_be_named(checkout: Path) -> None:
    server = checkout / "resources_servers" / "letter_count"
    assert find_sources(server) == find_sources(checkout / "resources_servers") == [("resources_servers", server)]
    assert [path.name for _, path in find_sources(checkout)] == ["letter_count", "two_turn_agent", "parrot_model"]
    for wrong in (checkout / "none", checkout.parent):
        with pytest.raises(UserError):
            find_sources(wrong)


def test_requirements_and_paths_are_written_as_they_are_here_and_the_source_stays(
    checkout: Path, tmp_path: Path
) -> None:
    source = checkout / "resources_servers" / "letter_count"
    (source / ".venv").mkdir()
    (source / ".venv" / "large").touch()
    before = content(checkout)
    move = plan_move("resources_servers", source, tmp_path / "servers")
    carry_out(move)

    target = tmp_path / "servers" / "resources" / "letter_count"
    assert (target / "requirements.txt").read_text() == "nemo-gym[dev]\n"
    config = (target / "configs" / "letter_count.yaml").read_text()
    assert "jsonl_fpath: servers/resources/letter_count/data/example.jsonl" in config
    assert "resources_servers:\n" in config  # a key, not a path
    assert (target / "app.py").read_bytes() == (source / "app.py").read_bytes()
    assert not (target / ".venv").exists()
    assert content(checkout) == before
    assert [change.partition(":")[0] for change in move.changes] == [
        *("layout", "requirements.txt", "configs/letter_count.yaml")
    ]


def test_names_that_servers_have_otherwise_here_are_followed(tmp_path: Path) -> None:
    source = tmp_path / "responses_api_agents" / "mine"
    (source / "configs").mkdir(parents=True)
    (source / "configs" / "mine.yaml").write_text("config_paths: [responses_api_models/openai_model/configs/a.yaml]\n")
    move = plan_move("responses_api_agents", source, tmp_path / "servers")
    assert move.texts["configs/mine.yaml"] == "config_paths: [servers/models/openai_model/configs/a.yaml]\n"


def test_a_project_becomes_requirements_and_what_is_lost_is_said(tmp_path: Path) -> None:
    source = tmp_path / "resources_servers" / "mine"
    source.mkdir(parents=True)
    (source / "pyproject.toml").write_text(
        '[project]\nname = "mine"\nrequires-python = ">=3.13.14"\ndependencies = ["nemo-gym[dev]", "own"]\n'
        '[tool.uv.sources]\nnemo-gym = { path = "../.." }\nown = { git = "https://x.example/own" }\n'
    )
    (source / "app.py").write_text('DATA = "resources_servers/mine/data/words.json"\n')
    move = plan_move("resources_servers", source, tmp_path / "servers")
    carry_out(move)
    assert (move.target / "requirements.txt").read_text() == "nemo-gym[dev]\nown\n"
    assert not (move.target / "pyproject.toml").exists()
    notes = "\n".join(move.notes)
    assert "Python >=3.13.14" in notes
    assert "takes own from" in notes
    assert "app.py:1 names resources_servers/mine/data/words.json" in notes


def test_what_is_there_is_never_written_over(checkout: Path, tmp_path: Path) -> None:
    move = plan_move("resources_servers", checkout / "resources_servers" / "letter_count", tmp_path / "servers")
    move.target.mkdir(parents=True)
    with pytest.raises(UserError, match="already there"):
        carry_out(move)
    assert list(move.target.parent.iterdir()) == [move.target]
    assert not list(move.target.iterdir())


def test_a_server_that_ships_here_is_known_by_each_of_its_names(tmp_path: Path) -> None:
    source = tmp_path / "resources_servers" / "multineedle"
    source.mkdir(parents=True)
    assert is_there_already(plan_move("resources_servers", source, tmp_path), ["multi_step"]) == "multi_step"


def test_the_command_says_what_it_would_do_and_then_does_it(checkout: Path) -> None:
    planned = gym("migrate", ".", "--to", "ours", "--dry-run", cwd=checkout)
    assert planned.returncode == 0, planned.stderr
    assert "3 would be copied" in planned.stdout
    assert not (checkout / "ours").exists()
    done = gym("migrate", ".", "--to", "ours", cwd=checkout)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (checkout / "ours" / "servers").iterdir()) == ["agents", "models", "resources"]
    shown = gym("info", "letter_count", cwd=checkout / "ours")
    assert shown.returncode == 0, shown.stderr
    again = gym("migrate", ".", "--to", "ours", cwd=checkout)
    assert again.returncode == 1
    assert "left out" in again.stderr
