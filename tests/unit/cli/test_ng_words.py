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
    with pytest.raises(UserError, match="not an option") as error:
        ng.collect(["+agent_nam=a"])
    assert "did you mean +agent_name=" in error.value.hint


HUB = ("+hf_token=hf_x", "+hf_organization=us")
SERVER = "+resource_config_path=resources_servers/mcqa/configs/mcqa.yaml"


@pytest.mark.parametrize(
    ("name", "words", "said"),
    [
        (
            "ng_upload_dataset_to_gitlab",
            ("+dataset_name=mcqa", "+version=0.0.1", "+input_jsonl_fpath=t.jsonl"),
            ["data", "upload", "t.jsonl", "gitlab:mcqa:0.0.1"],
        ),
        (
            "ng_download_dataset_from_gitlab",
            ("+dataset_name=mcqa", "+version=0.0.1", "+artifact_fpath=t.jsonl", "+output_fpath=o.jsonl"),
            ["data", "download", "gitlab:mcqa:0.0.1", "t.jsonl", "-o", "o.jsonl"],
        ),
        ("ng_delete_dataset_from_gitlab", ("+dataset_name=mcqa",), ["data", "rm", "gitlab:mcqa"]),
        (
            "ng_upload_dataset_to_hf",
            ("+input_jsonl_fpath=t.jsonl", SERVER, "+split=train", "+create_pr=true", *HUB),
            [
                *("data", "upload", "t.jsonl", "--for", "mcqa", "--split", "train", "--pr"),
                *("--set", "hf_token=hf_x", "--set", "hf_organization=us"),
            ],
        ),
        (
            "ng_gitlab_to_hf_dataset",
            ("+dataset_name=hard", "+input_jsonl_fpath=t.jsonl", SERVER),
            ["data", "upload", "t.jsonl", "--for", "mcqa", "--name", "hard", "--then-remove", "gitlab:hard"],
        ),
        (
            "ng_download_dataset_from_hf",
            ("+repo_id=us/mcqa", "+split=train", "+output_dirpath=out/", "+revision=v1"),
            ["data", "download", "hf:us/mcqa@v1", "--split", "train", "-o", "out/"],
        ),
    ],
)
def test_the_registries_have_their_words(name: str, words: tuple[str, ...], said: list[str]) -> None:
    assert ng.COMMANDS[name](words) == said


@pytest.mark.parametrize("words", [("+repo_id=a/b", "+output_fpath=x"), ("+repo_id=a/b", "+split=train")])
def test_a_download_says_what_and_where_to(words: tuple[str, ...]) -> None:
    with pytest.raises(UserError, match="one of them"):
        ng.COMMANDS["ng_download_dataset_from_hf"](words)
