"""A real MLflow server, of the package as it is published, as a registry of data sets; its own client reads it too."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gym.data.registries import parse_address, read_access
from gym.data.registries.mlflow import ModelRegistry
from gym.data.registries.transfer import part_of
from tests.support.cli import gym

pytestmark = pytest.mark.long
SECONDS = 600.0
ROWS = b"".join(b'{"responses_create_params": {"input": []}, "id": %d}\n' % number for number in range(20_000))
# What the toolkit that the format comes from does: the files of a version's run, by MLflow's own client.
FETCH = """
import sys
from mlflow import MlflowClient
from mlflow.artifacts import download_artifacts
client = MlflowClient(tracking_uri=sys.argv[1])
(version,) = client.search_model_versions("name='mcqa'")
where = {"dst_path": sys.argv[2], "tracking_uri": sys.argv[1]}
print(download_artifacts(run_id=version.run_id, artifact_path="train.jsonl", **where))
"""


@dataclass
class Server:
    folder: Path
    python: Path
    url: str


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("mlflow")
    uv, python = str(Path(sys.executable).with_name("uv")), folder / "env" / "bin" / "python"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder / "env")], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", str(python), "mlflow"], check=True, timeout=1800)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    where = ("--backend-store-uri", f"sqlite:///{folder}/db", "--artifacts-destination", str(folder / "artifacts"))
    argv = (str(python), "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1", *where)
    environ = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(argv, cwd=folder, env=environ, stdout=log, stderr=log, start_new_session=True)
    try:
        wait_until_up(f"http://127.0.0.1:{port}/health", process, folder / "log")
        yield Server(folder, python, f"http://127.0.0.1:{port}")
    finally:
        os.killpg(process.pid, 15)
        process.wait(60)


def wait_until_up(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (OSError, urllib.error.URLError):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.5)


def test_a_data_set_lives_in_a_real_mlflow(server: Server, tmp_path: Path) -> None:
    (tmp_path / "env.yaml").write_text(f"mlflow_tracking_uri: {server.url}\n")
    (tmp_path / "train.jsonl").write_bytes(ROWS)

    def data(*words: str, code: int = 0) -> str:
        done = gym("data", *words, cwd=tmp_path)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    assert "made gitlab:mcqa:0.0.1" in data("upload", "train.jsonl", "gitlab:mcqa:0.0.1")
    (file,) = json.loads(data("ls", "gitlab:mcqa:0.0.1", "--json"))
    assert (file["name"], file["size"], len(file["digest"])) == ("train.jsonl", len(ROWS), 64)
    assert "sha256 checked" in data("download", "gitlab:mcqa:0.0.1", "train.jsonl", "-o", "got.jsonl")
    assert (tmp_path / "got.jsonl").read_bytes() == ROWS

    argv = [str(server.python), "-c", FETCH, server.url, str(tmp_path / "theirs")]
    fetched = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=300).stdout.splitlines()[-1]
    assert Path(fetched).read_bytes() == ROWS

    (tmp_path / "train.jsonl").write_bytes(ROWS * 2)
    assert f"it replaced {len(ROWS):,} bytes (sha256 {file['digest'][:12]})" in data(
        "upload", "train.jsonl", "gitlab:mcqa:0.0.1"
    )
    data("download", "gitlab:mcqa:0.0.1", "train.jsonl", "-o", "got.jsonl")
    assert (tmp_path / "got.jsonl").read_bytes() == ROWS * 2

    assert "404" in data("download", "gitlab:mcqa:0.0.1", "absent.jsonl", code=1)
    assert "404" in data("download", "gitlab:mcqa:7.0.0", "train.jsonl", code=1)
    data("upload", "train.jsonl", "gitlab:mcqa:0.0.2")
    assert [one["name"] for one in json.loads(data("ls", "gitlab:mcqa", "--json"))] == ["0.0.2", "0.0.1"]
    assert [one["name"] for one in json.loads(data("ls", "gitlab:", "--json"))] == ["gitlab:mcqa"]
    data("rm", "gitlab:mcqa:0.0.2", "--yes")
    data("rm", "gitlab:mcqa:0.0.1", "train.jsonl", "--yes")
    assert json.loads(data("ls", "gitlab:mcqa:0.0.1", "--json")) == []
    data("rm", "gitlab:mcqa", "--yes")
    assert json.loads(data("ls", "gitlab:", "--json")) == []


def test_a_part_is_used_or_fetched_again_but_never_spoils(server: Server, tmp_path: Path) -> None:
    """MLflow sends whole files alone: a part that lies there is begun again."""
    (tmp_path / "env.yaml").write_text(f"mlflow_tracking_uri: {server.url}\n")
    (tmp_path / "train.jsonl").write_bytes(ROWS)
    assert gym("data", "upload", "train.jsonl", "gitlab:parts:0.0.1", cwd=tmp_path).returncode == 0
    words = ("data", "download", "gitlab:parts:0.0.1", "train.jsonl", "-o", "got.jsonl", "--json")
    remote = ModelRegistry(read_access({"mlflow_tracking_uri": server.url}, {})).remote(
        parse_address("gitlab:parts:0.0.1"), "train.jsonl"
    )
    part_of(remote, tmp_path / "got.jsonl").write_bytes(b"x" * 1000)
    done = gym(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "got.jsonl").read_bytes() == ROWS
    assert json.loads(done.stdout)["verified"] == "sha256"
