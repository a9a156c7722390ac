"""`gym data ls|download|upload|rm`, NeMo Gym's words for them, `gym rollouts NAME --split`: with local registries."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.cli import GYM, Terminal, environment, gym
from tests.support.hub import TOKEN, Hub, hub_server
from tests.support.mlflow_registry import registry_server

NAME = "nvidia/Nemotron-RL-agent-workplace_assistant"
EXAMPLES = Path(__file__).parents[2] / "servers" / "resources" / "mcqa" / "data" / "example.jsonl"
ROWS = b"".join(b'{"responses_create_params": {"input": []}, "id": %d}\n' % number for number in range(500))
CONFIG = """\
mcqa:
  resources_servers:
    mcqa: {entrypoint: app.py, domain: knowledge}
mcqa_simple_agent:
  responses_api_agents:
    simple_agent:
      entrypoint: app.py
      resources_server: {type: resources_servers, name: mcqa}
      model_server: {type: responses_api_models, name: policy_model}
      datasets:
      - name: train
        type: train
        license: Apache 2.0
        jsonl_fpath: %s/train.jsonl
        start_idx: 1
        end_idx: 4
        huggingface_identifier: {repo_id: us/mcqa, artifact_fpath: train.jsonl}
"""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with hub_server(tmp_path / "server") as server:
        yield server


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "work"
    path.mkdir()
    yield path
    for home in path.glob(".gym/*"):
        gym("down", "--stack", home.name, cwd=path)


def ng(name: str, *words: str, cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    command = [str(Path(GYM).parent / name), *words]
    settings = {"cwd": cwd, "env": environment(env), "stdin": subprocess.DEVNULL}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **settings)  # type: ignore[call-overload, no-any-return]


def test_a_data_set_goes_to_a_hub_and_comes_back(hub: Hub, folder: Path) -> None:
    (folder / "env.yaml").write_text(f"hf_token: {TOKEN}\nhf_organization: us\n")
    (folder / "rows.jsonl").write_bytes(ROWS)
    hub.lfs_above = 1000
    up = gym("data", "upload", "rows.jsonl", "--for", "mcqa", "--split", "train", cwd=folder, env=hub.environ)
    assert up.returncode == 0, up.stderr
    assert "train.jsonl is in hf:us/Nemotron-RL-knowledge-mcqa: 26.9 KB" in up.stdout
    assert hub.repos["us/Nemotron-RL-knowledge-mcqa"].private

    (folder / "rows.jsonl").write_bytes(ROWS * 2)
    words = ("data", "upload", "rows.jsonl", "us/Nemotron-RL-knowledge-mcqa", "--as", "train.jsonl", "--json")
    again = gym(*words, cwd=folder, env=hub.environ)
    assert json.loads(again.stdout)["replaced"].startswith(f"{len(ROWS):,} bytes (")

    listed = gym("data", "ls", "us/Nemotron-RL-knowledge-mcqa", "--json", cwd=folder, env=hub.environ)
    assert ["train.jsonl", 2 * len(ROWS)] in [[one["name"], one["size"]] for one in json.loads(listed.stdout)]

    hub.faults.cut_off("/cdn/", after=2000)
    words = ("data", "download", "us/Nemotron-RL-knowledge-mcqa", "--split", "train", "-o", "data/")
    down = gym(*words, cwd=folder, env=hub.environ)
    assert down.returncode == 0, down.stderr
    assert "sha256 checked" in down.stdout
    assert (folder / "data" / "train.jsonl").read_bytes() == ROWS * 2

    asked = gym("data", "rm", "us/Nemotron-RL-knowledge-mcqa", cwd=folder, env=hub.environ)
    assert (asked.returncode, list(hub.repos)) == (1, ["us/Nemotron-RL-knowledge-mcqa"])
    assert "--yes" in asked.stderr
    gone = gym("data", "rm", "us/Nemotron-RL-knowledge-mcqa", "--yes", cwd=folder, env=hub.environ)
    assert (gone.returncode, hub.repos) == (0, {})
    assert TOKEN not in "".join(one.stdout + one.stderr for one in (up, again, listed, down, asked, gone))


def test_one_of_several_configurations_is_chosen_and_one_without_rows_says_so(hub: Hub, folder: Path) -> None:
    configs = b"[{config_name: a, data_files: a.jsonl}, {config_name: b, data_files: b.jsonl}]"
    hub.add("us/mcqa", {"README.md": b"---\nconfigs: %s\n---\n" % configs, "a.jsonl": ROWS, "b.jsonl": b"\n"})
    words = ("data", "download", "us/mcqa", "--split", "train", "-o", "got.jsonl")
    refused = gym(*words, cwd=folder, env=hub.environ)
    assert (refused.returncode, "--config NAME" in refused.stderr) == (1, True)
    down = gym(*words, "--config", "a", cwd=folder, env=hub.environ)
    assert (down.returncode, down.stderr, (folder / "got.jsonl").read_bytes()) == (0, "", ROWS)
    empty = gym(*words, "--config", "b", cwd=folder, env=hub.environ)
    assert (empty.returncode, empty.stderr) == (0, "got.jsonl: it has no rows\n")
    refused = gym("data", "download", "us/mcqa", "a.jsonl", "--config", "a", cwd=folder, env=hub.environ)
    assert "--config chooses among the rows of a split" in refused.stderr


@pytest.mark.parametrize(("answer", "left"), [("n", 1), ("y", 0)])
def test_removing_asks_on_a_terminal(hub: Hub, folder: Path, answer: str, left: int) -> None:
    hub.add("us/mcqa", {"train.jsonl": ROWS})
    with Terminal("data", "rm", "us/mcqa", cwd=folder, env={**hub.environ, "HF_TOKEN": TOKEN}) as terminal:
        terminal.wait_for("Remove hf:us/mcqa with all that is in it")
        terminal.write(f"{answer}\n")
        assert terminal.wait() == left
    assert len(hub.repos) == left


def test_missing_credentials_name_the_key_and_the_file(hub: Hub, folder: Path) -> None:
    hub.add(NAME, {"train.jsonl": ROWS}, private=True)
    refused = gym("data", "download", NAME, "--split", "train", cwd=folder, env=hub.environ)
    assert refused.returncode == 1
    assert "Write `hf_token: ...` into env.yaml" in refused.stderr
    refused = gym("data", "ls", "gitlab:", cwd=folder, env=hub.environ)
    assert refused.returncode == 1
    assert "Write `mlflow_tracking_uri: ...` into env.yaml" in refused.stderr


def test_the_words_of_nemo_gym_reach_the_same_registries(hub: Hub, folder: Path) -> None:
    (folder / "train.jsonl").write_bytes(ROWS)
    with registry_server(gitlab=True, token="glpat-secret0123456789") as registry:
        (folder / "env.yaml").write_text(
            f"mlflow_tracking_uri: {registry.url}\nmlflow_tracking_token: glpat-secret0123456789\n"
            f"hf_token: {TOKEN}\nhf_organization: us\n"
        )
        entry = ("+dataset_name=mcqa", "+version=0.0.1")
        up = ng("ng_upload_dataset_to_gitlab", *entry, "+input_jsonl_fpath=train.jsonl", cwd=folder, env=hub.environ)
        assert up.returncode == 0, up.stderr
        where = ("+artifact_fpath=train.jsonl", "+output_fpath=got/train.jsonl")
        down = ng("ng_download_dataset_from_gitlab", *entry, *where, cwd=folder, env=hub.environ)
        assert down.returncode == 0, down.stderr
        assert (folder / "got" / "train.jsonl").read_bytes() == ROWS
        moved = ng(
            "ng_gitlab_to_hf_dataset",
            *("+dataset_name=mcqa", "+input_jsonl_fpath=got/train.jsonl"),
            "+resource_config_path=resources_servers/mcqa/configs/mcqa.yaml",
            cwd=folder,
            env=hub.environ,
        )
        assert moved.returncode == 0, moved.stderr
        assert registry.models == {}
        words = ("+repo_id=us/Nemotron-RL-knowledge-mcqa", "+artifact_fpath=train.jsonl", "+output_dirpath=again")
        down = ng("ng_download_dataset_from_hf", *words, cwd=folder, env=hub.environ)
        assert (folder / "again" / "train.jsonl").read_bytes() == ROWS, down.stderr
        asked = ng("ng_delete_dataset_from_gitlab", "+dataset_name=absent", cwd=folder, env=hub.environ)
        assert "Remove gitlab:absent" in asked.stderr


def test_rollouts_of_a_split_fetch_what_is_missing(hub: Hub, folder: Path) -> None:
    hub.add("us/mcqa", {"train.jsonl": EXAMPLES.read_bytes()})
    (folder / "mine.yaml").write_text(CONFIG % "resources_servers/mcqa_of_ours/data")
    words = ("mine.yaml", "--model", "scripted", "--runtime", "local", "--port", "0")
    up = gym("up", *words, cwd=folder, env=hub.environ, timeout=300)
    assert up.returncode == 0, up.stderr
    collect = ("rollouts", "mine.yaml", "--split", "train", "-o", "out.jsonl")
    done = gym(*collect, cwd=folder, env=hub.environ)
    assert done.returncode == 0, done.stderr
    assert "train rows, Apache 2.0: " in done.stderr
    assert f"hf:us/mcqa@{hub.repos['us/mcqa'].head[:12]}: train.jsonl" in done.stderr
    assert (folder / "data" / "mcqa_of_ours" / "train.jsonl").read_bytes() == EXAMPLES.read_bytes()
    rollouts = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    wanted = [json.loads(line) for line in EXAMPLES.read_text().splitlines()][1:4]
    assert sorted(one["expected_answer"] for one in rollouts) == sorted(one["expected_answer"] for one in wanted)

    asked = len(hub.faults.seen)
    again = gym(*collect, cwd=folder, env=hub.environ)
    assert again.returncode == 0, again.stderr
    assert len(hub.faults.seen) == asked
    other = gym("rollouts", "mine.yaml", "--split", "validation", "-o", "v.jsonl", cwd=folder, env=hub.environ)
    assert other.returncode == 1
    assert "no data set of type validation is listed; it has train" in other.stderr


def test_a_killed_download_goes_on_in_the_next_command(hub: Hub, folder: Path) -> None:
    hub.add(NAME, {"train.jsonl": ROWS * 100})
    hub.faults.cut_off("train.jsonl", after=1_000_000)
    hub.faults.answer("train.jsonl", 503, Retry_After="600")
    words = ["data", "download", NAME, "train.jsonl"]
    with subprocess.Popen([GYM, *words], cwd=folder, env=environment(hub.environ), stdin=subprocess.DEVNULL) as process:
        while len(hub.faults.ranges("train.jsonl")) < 2:
            assert process.poll() is None
            os.sched_yield()
        process.kill()
    assert not (folder / "train.jsonl").exists()
    done = gym(*words, cwd=folder, env=hub.environ)
    assert done.returncode == 0, done.stderr
    assert (folder / "train.jsonl").read_bytes() == ROWS * 100
    assert hub.faults.ranges("train.jsonl")[-1] == "bytes=1000000-"
    assert [path.name for path in folder.iterdir()] == ["train.jsonl"]
