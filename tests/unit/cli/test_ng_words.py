"""What stands behind each ng_ command: our words, whichever way theirs are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from gym.cli import ng
from gym.errors import UserError


def test_the_head_server_is_the_router() -> None:
    words = ["+config_paths=[a.yaml]", "+head_server.port=5000", "++head_server.host=10.0.0.1", "x.y=1"]
    said = ["up", "+config_paths=[a.yaml]", "x.y=1", "--bind", "10.0.0.1", "--port", "5000", "--attach"]
    assert ng.up(words) == said
    assert ng.up(["simple_weather"]) == ["up", "simple_weather", "--attach"]


def test_collecting_takes_every_option_of_the_tutorials() -> None:
    said = ng.collect(
        [
            *("+agent_name=a", "+input_jsonl_fpath=i.jsonl", "+output_jsonl_fpath=o.jsonl", "+limit=null"),
            *("+num_repeats=2", "+num_samples_in_parallel=null", "+responses_create_params={temperature: 1.0}"),
        ]
    )
    assert said == [
        *("rollouts", "i.jsonl", "-o", "o.jsonl", "--agent", "a", "--repeats", "2"),
        *("--concurrency", str(ng.NO_LIMIT), "--params", '{"temperature": 1.0}'),
    ]


def test_a_server_is_made_where_it_was_asked_for_unless_ours_have_a_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = ["new", "resources", "mine"]
    assert ng.init(["+entrypoint=resources_servers/mine"]) == [*made, "--to", "resources_servers"]
    assert ng.init(["+entrypoint=mine"]) == made
    (tmp_path / "servers").mkdir()
    assert ng.init(["+entrypoint=resources_servers/mine"]) == made


def test_an_option_that_is_none_names_the_nearest() -> None:
    with pytest.raises(UserError, match="no option") as error:
        ng.collect(["+agent_nam=a"])
    assert "did you mean +agent_name=" in error.value.hint
