"""What is a file of rows, a configuration, a name or an override, and which rows a name means."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym.cli.data.data_arguments import find_inputs, find_stack, sort_out
from gym.errors import UserError


def test_items_are_distinguished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows=1.jsonl").touch()
    (tmp_path / "swe").mkdir()
    given = sort_out(["mcqa", "swe", "a.jsonl", "x/*.gz", "-", "env/my.yaml", "mcqa.k=1", "+a.b=2", "rows=1.jsonl"])
    assert given.rows == ("a.jsonl", "x/*.gz", "-", "rows=1.jsonl")
    assert given.names == ["mcqa", "swe", "mcqa.k=1", "+a.b=2"]
    assert given.configs == [Path("env/my.yaml")]


def test_a_servers_name_stands_for_its_data_sets_and_their_agent() -> None:
    given = sort_out(["workplace_assistant"])
    inputs, missing = find_inputs(given, find_stack(given))
    assert [(Path(one.file).parent.parent.name, one.agent) for one in inputs] == [
        ("workplace_assistant", "workplace_assistant_simple_agent")
    ]
    assert missing == ()


def test_files_beside_a_name_are_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"{}\n")
    given = sort_out(["mcqa", str(path), str(path)])
    assert [one.file for one in find_inputs(given, find_stack(given))[0]] == [str(path)]


def test_data_sets_that_are_not_here_are_named(tmp_path: Path) -> None:
    config = tmp_path / "my.yaml"
    config.write_text(
        """
my_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: mcqa}
      model_server: {type: responses_api_models, name: policy_model}
      datasets:
        - {name: train, type: train, license: MIT, jsonl_fpath: nowhere/train.jsonl}
"""
    )
    given = sort_out(["mcqa", str(config)])
    inputs, missing = find_inputs(given, find_stack(given))
    assert ([one.agent for one in inputs], missing) == (["mcqa_simple_agent"], ("nowhere/train.jsonl",))


def test_a_judge_that_was_not_named_does_not_concern_rows() -> None:
    given = sort_out(["text_to_sql"])
    assert len(find_inputs(given, find_stack(given))[0]) == 1


@pytest.mark.parametrize(
    ("items", "message"), [([], "Which rows?"), (["nowhere.jsonl"], "there is no file nowhere.jsonl")]
)
def test_no_rows_at_all_is_an_error(items: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        find_inputs(sort_out(items), None)


def test_a_folder_is_refused_with_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a folder"):
        find_inputs(sort_out([f"{tmp_path}/"]), None)
