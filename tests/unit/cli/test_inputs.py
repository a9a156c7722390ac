"""What the words of `gym rollouts` mean: rows, or the agent whose rows `--input` names."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gym.cli.rollout_inputs import find_rows
from gym.errors import UserError
from gym.files import own_root


def test_words_are_rows_and_a_server_stands_for_its_examples() -> None:
    (file, example), agent = find_rows(["rows.jsonl", "mcqa"], [], "solver")
    assert (file, agent) == ("rows.jsonl", "solver")
    assert Path(example).parts[-3:] == ("mcqa", "data", "example.jsonl")


def test_a_configuration_with_a_name_of_its_own_stands_for_the_examples_that_it_lists() -> None:
    (example,), _ = find_rows(["openenv_tools"], [], "")
    assert Path(example).parts[-3:] == ("openenv", "data", "example_tools.jsonl")
    with pytest.raises(UserError, match="no data set of type example is listed"):
        find_rows(["scripted_judge"], [], "")
    with pytest.raises(UserError, match="There is no server `openenv_tool`"):
        find_rows(["openenv_tool"], [], "")


def test_a_folder_of_a_server_stands_for_its_own_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "mine" / "mcqa"
    shutil.copytree(own_root() / "servers" / "resources" / "mcqa", own)
    monkeypatch.chdir(tmp_path)
    for named in ("mine/mcqa/", "./mine/mcqa"):
        assert find_rows([named], [], "") == ((str(own / "data" / "example.jsonl"),), "")


@pytest.mark.parametrize(("named", "agent"), [(["solver"], ""), ([], "solver"), (["solver"], "solver")])
def test_with_input_the_word_is_the_agent(named: list[str], agent: str) -> None:
    assert find_rows(named, ["a.jsonl", "b.jsonl"], agent) == (("a.jsonl", "b.jsonl"), "solver")


@pytest.mark.parametrize(("named", "agent"), [(["solver", "other"], ""), (["solver"], "other")])
def test_rows_have_one_agent_to_go_to(named: list[str], agent: str) -> None:
    with pytest.raises(UserError, match="other and solver: with --input the argument is the one agent"):
        find_rows(named, ["a.jsonl"], agent)


def test_no_rows_at_all_is_reported_with_what_to_type() -> None:
    with pytest.raises(UserError, match="Which rows") as caught:
        find_rows([], [], "solver")
    assert "gym rollouts mcqa -o" in caught.value.hint
