"""What a server's `datasets:` names is fetched to where its rows are looked for."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gym.config import Instance, Location
from gym.data.data_sets import DataSet, Listed
from gym.data.registries import UploadOptions, choose_place, fetch, parse_address, read_access
from gym.data.registries.mlflow import ModelRegistry
from gym.errors import UserError
from gym.programs import install_command
from tests.support.hub import Hub
from tests.support.mlflow_registry import Registry

ROWS = b'{"responses_create_params": {"input": []}}\n'
PATH = "resources_servers/workplace_assistant/data/train.jsonl"
HUB = {"repo_id": "nvidia/work"}
GITLAB = {"dataset_name": "work", "version": "0.0.1", "artifact_fpath": "train.jsonl"}


def listed(path: str = PATH, **source: object) -> Listed:
    block = {"name": "train", "type": "train", "jsonl_fpath": path, "license": "MIT", **source}
    agent = Instance(
        name="work_agent",
        type="responses_api_agents",
        implementation="simple_agent",
        entrypoint="app.py",
        fields={},
        origin=Location(file="work.yaml", line=1),
    )
    return Listed(instance=agent, data=DataSet.model_validate(block))


def test_a_split_of_a_hub_or_a_named_file_of_it(hub: Hub, tmp_path: Path) -> None:
    hub.add("nvidia/work", {"train.jsonl": ROWS, "validation.jsonl": ROWS * 2})
    settings = {"hf_endpoint": hub.url}
    got = fetch(listed(huggingface_identifier=HUB), tmp_path / "t.jsonl", settings, environ={})
    assert got.path.read_bytes() == ROWS
    source = {"type": "huggingface", **HUB, "artifact_fpath": "validation.jsonl"}
    assert fetch(listed(source=source), tmp_path / "v.jsonl", settings, environ={}).path.read_bytes() == ROWS * 2


def test_a_packed_file_is_not_kept_under_a_name_of_plain_lines(hub: Hub, tmp_path: Path) -> None:
    hub.add("nvidia/work", {"train.jsonl.gz": b"", "train.parquet": b""})
    for file in ("train.jsonl.gz", "train.parquet"):
        source = {"type": "huggingface", **HUB, "artifact_fpath": file}
        with pytest.raises(UserError, match=rf"{file} would be kept as t\.jsonl") as refused:
            fetch(listed(source=source), tmp_path / "t.jsonl", {"hf_endpoint": hub.url}, environ={})
        assert f"let it end in {Path(file).suffix}" in refused.value.hint
    assert not list(tmp_path.glob("*t.jsonl*"))


def test_a_configuration_of_a_hub_is_named_beside_its_data_set(hub: Hub, tmp_path: Path) -> None:
    configs = b"[{config_name: a, data_files: a.jsonl}, {config_name: b, data_files: b.jsonl}]"
    hub.add("nvidia/work", {"README.md": b"---\nconfigs: %s\n---\n" % configs, "a.jsonl": ROWS, "b.jsonl": ROWS * 2})
    settings = {"hf_endpoint": hub.url}
    with pytest.raises(UserError, match=r"work_agent: train \(train\): hf:nvidia/work: it has several") as caught:
        fetch(listed(huggingface_identifier=HUB), tmp_path / "t.jsonl", settings, environ={})
    assert "`config_name: NAME` beside `repo_id`" in caught.value.hint
    chosen = listed(huggingface_identifier={**HUB, "config_name": "b"})
    assert fetch(chosen, tmp_path / "t.jsonl", settings, environ={}).path.read_bytes() == ROWS * 2


def test_of_two_registries_the_preferred_one_is_asked(hub: Hub, registry: Registry, tmp_path: Path) -> None:
    hub.add("nvidia/work", {"train.jsonl": ROWS})
    (tmp_path / "train.jsonl").write_bytes(ROWS * 3)
    settings = {"hf_endpoint": hub.url, "mlflow_tracking_uri": registry.url}
    client = ModelRegistry(read_access(settings, {}))
    client.upload(parse_address("gitlab:work:0.0.1"), tmp_path / "train.jsonl", UploadOptions())
    both = listed(huggingface_identifier=HUB, gitlab_identifier=GITLAB)
    assert fetch(both, tmp_path / "h.jsonl", settings, environ={}).path.read_bytes() == ROWS
    assert fetch(both, tmp_path / "g.jsonl", settings, "gitlab", environ={}).path.read_bytes() == ROWS * 3
    with pytest.raises(UserError, match=r"work_agent: train \(train\): `mlflow_tracking_uri` is not set"):
        fetch(both, tmp_path / "x.jsonl", {}, "gitlab", environ={})


def test_a_set_that_nothing_says_where_from_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="its entry names no registry") as caught:
        fetch(listed(), tmp_path / "t.jsonl", {}, environ={})
    assert "huggingface_identifier" in caught.value.hint


def test_rows_go_where_the_server_is_else_below_the_working_directory(tmp_path: Path) -> None:
    cwd, tree = tmp_path / "here", tmp_path / "tree"
    cwd.mkdir()
    below = cwd / "data" / "workplace_assistant" / "train.jsonl"
    assert choose_place(listed(), [cwd], cwd) == below
    server = tree / "servers" / "resources" / "workplace_assistant"
    server.mkdir(parents=True)
    assert choose_place(listed(), [cwd, tree], cwd) == server / "data" / "train.jsonl"
    assert choose_place(listed(), [cwd, tree], cwd, own=tree) == below
    assert choose_place(listed(), [tree], server, own=tree) == server / "data" / "train.jsonl"
    assert choose_place(listed(str(tmp_path / "x.jsonl")), [cwd], cwd) == tmp_path / "x.jsonl"
    assert choose_place(listed("data/train.jsonl"), [cwd], cwd) == cwd / "data" / "train.jsonl"


@pytest.mark.parametrize("path", [PATH, "servers/resources/workplace_assistant/data/train.jsonl", "rows/train.jsonl"])
def test_what_was_put_below_the_working_directory_is_found_again(path: str, tmp_path: Path) -> None:
    one = listed(path)
    assert one.file([tmp_path]) is None
    place = choose_place(one, [tmp_path], tmp_path)
    place.parent.mkdir(parents=True)
    place.write_bytes(ROWS)
    assert one.file([tmp_path]) == place


def test_pyarrow_is_missed_before_anything_is_fetched(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.add("nvidia/work", {"data/train-0.parquet": b"PAR1"})
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UserError, match="parquet") as caught:
        fetch(listed(huggingface_identifier=HUB), tmp_path / "t.jsonl", {"hf_endpoint": hub.url}, environ={})
    assert caught.value.hint == install_command("pyarrow")
    assert hub.faults.ranges(".parquet") == []
