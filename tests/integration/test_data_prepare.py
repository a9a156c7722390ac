"""`gym data prepare` and `ng_prepare_data` as they are typed: fetched from a hub, prepared, blended, refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli import environment, gym
from tests.support.hub import hub_server

NG = str(Path(sys.executable).with_name("ng_prepare_data"))


def rows(server: str, count: int) -> bytes:
    found = [
        {
            "responses_create_params": {"input": [{"role": "user", "content": f"{server} {number}?"}], "top_p": 0.5},
            "options": [{"A": "yes"}, {"B": "no"}],
            "expected_answer": "A",
        }
        for number in range(count)
    ]
    return "".join(json.dumps(one) + "\n" for one in found).encode()


def write_config(folder: Path, *blocks: dict[str, Any]) -> Path:
    """Two agents of mcqa: the first lists all but the last block, the second that one."""
    config: dict[str, Any] = {}
    for name, listed in (("one_agent", blocks[:-1]), ("two_agent", blocks[-1:])):
        fields = {
            "entrypoint": "app.py",
            "resources_server": {"type": "resources_servers", "name": "mcqa"},
            "model_server": {"type": "responses_api_models", "name": "policy_model"},
            "datasets": [{"license": "MIT", **block} for block in listed],
        }
        config[name] = {"responses_api_agents": {"simple_agent": fields}}
    path = folder / "mix.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


TRAIN = {"name": "train_one", "type": "train", "jsonl_fpath": "data/one.jsonl"}
VALIDATION = {"name": "validation_one", "type": "validation", "jsonl_fpath": "data/held.jsonl"}
OTHER = {"name": "train_two", "type": "train", "jsonl_fpath": "data/two.jsonl"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "one.jsonl").write_bytes(rows("one", 20))
    (tmp_path / "data" / "two.jsonl").write_bytes(rows("two", 20))
    (tmp_path / "data" / "held.jsonl").write_bytes(rows("held", 4))
    write_config(tmp_path, TRAIN, VALIDATION, OTHER)
    return tmp_path


def prepare(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    typed = ("data", "prepare", "mcqa", "-c", "mix.yaml", "-o", "out", "--mode", "train_preparation", *words)
    return gym(*typed, cwd=folder, env=env)


def test_two_environments_are_blended_and_shuffled_the_same_way_twice(folder: Path) -> None:
    typed = ("--blend", "one_agent=1,two_agent=3", "--seed", "5", "--json")
    done = prepare(folder, *typed)
    assert done.returncode == 0, done.stderr
    train, validation = json.loads(done.stdout)["splits"]
    assert (train["rows"], train["taken"], validation["rows"]) == (26, {"one_agent": 6, "two_agent": 20}, 4)
    first = (folder / "out" / "train.jsonl").read_bytes()
    assert prepare(folder, *typed).returncode == 0
    assert (folder / "out" / "train.jsonl").read_bytes() == first
    agents = [json.loads(line)["agent_ref"]["name"] for line in first.splitlines()]
    assert agents.count("two_agent") == 20
    assert (
        json.loads((folder / "data" / "one_metrics.json").read_text())["Sampling parameters"]["top_p"]["Average"] == 0.5
    )


def test_a_row_that_its_server_cannot_read_stops_everything(folder: Path) -> None:
    with (folder / "data" / "two.jsonl").open("ab") as file:
        file.write(b'{"responses_create_params": {"input": "x"}}\n')
    done = prepare(folder)
    assert done.returncode == 1
    assert "data/two.jsonl:21: expected_answer: is missing" in done.stderr
    assert not (folder / "out").exists()


def test_what_is_missing_is_fetched_from_the_hub(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    (folder / "data" / "two.jsonl").unlink()
    write_config(folder, TRAIN, VALIDATION, {**OTHER, "huggingface_identifier": {"repo_id": "org/two"}})
    refused = prepare(folder)
    assert refused.returncode == 1
    assert "--download" in refused.stderr
    with hub_server(tmp_path_factory.mktemp("hub")) as hub:
        hub.add("org/two", {"train.jsonl": rows("far", 3)})
        done = prepare(folder, "--download", **hub.environ)
    assert done.returncode == 0, done.stderr
    assert (folder / "data" / "two.jsonl").read_bytes() == rows("far", 3)
    assert (folder / "out" / "train.jsonl").read_text().count('"two_agent"') == 3


def test_the_words_of_nemo_gym_prepare_too(folder: Path) -> None:
    configs = "+config_paths=[resources_servers/mcqa/configs/mcqa.yaml,mix.yaml]"
    words = [configs, "+output_dirpath=ready", "+mode=train_preparation", "+policy_model_name=m"]
    done = subprocess.run([NG, *words], cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (folder / "ready").iterdir()) == [
        *("train.jsonl", "train_metrics.json", "validation.jsonl", "validation_metrics.json")
    ]
