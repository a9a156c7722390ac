"""A built stack as one file, on a machine with no network and an engine of its own, which is restarted in mid-run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym.errors import UserError
from gym.runtime.compose import load_stack_file, save_stack
from tests.support.docker import Stand, call, engine_client, stand_in

pytestmark = pytest.mark.docker

REPO = Path(__file__).parents[2]
ROWS = REPO / "servers" / "resources" / "stateful_counter" / "data" / "example.jsonl"
SLOWLY = ("policy_model.responses_api_models.scripted.latency_seconds=0.1",)


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    with stand_in(tmp_path) as stand:
        yield stand


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A socket's path is short."""
    folder = Path(tempfile.mkdtemp(prefix="gym"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def can_run_an_engine() -> bool:
    needed = all(shutil.which(name) for name in ("dockerd", "unshare", "ip"))
    return sys.platform == "linux" and os.getuid() == 0 and needed


@pytest.mark.skipif(not can_run_an_engine(), reason="a second engine takes root, dockerd and unshare")
def test_a_saved_stack_runs_without_network_and_outlives_a_restart_of_its_engine(
    stand: Stand, short_folder: Path
) -> None:
    stand.up("stateful_counter", overrides=SLOWLY)
    saved = short_folder / "demo.gym"
    save_stack(stand.home, saved)
    stand.down()
    argv = ["unshare", "--net", sys.executable, "-m", "tests.support.airgap", str(saved), str(ROWS), str(short_folder)]
    done = subprocess.run(argv, cwd=REPO, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    seen = json.loads(done.stdout)
    assert seen == {"ends": {"1.0": 50}, "states": ["healthy"], "down": True}


def test_a_loaded_stack_starts_with_nothing_but_its_file_and_its_secrets(stand: Stand, tmp_path: Path) -> None:
    name = "stateful_counter-env-token"
    stand.up(
        "stateful_counter", overrides=("stateful_counter.resources_servers.stateful_counter.env={TOKEN: a-value}",)
    )
    manifest = save_stack(stand.home, tmp_path / "demo.gym")
    stand.down()
    assert manifest.secrets == (name,)
    assert b"a-value" not in (tmp_path / "demo.gym").read_bytes()
    with stand_in(tmp_path / "elsewhere") as other:
        load_stack_file(tmp_path / "demo.gym", other.home)
        with pytest.raises(UserError, match=name):
            other.runtime.start(other.home, {}, other.seen.append, timeout=180)
        status = other.runtime.start(other.home, {name: "another"}, other.seen.append, timeout=180)
        assert status.healthy
        code, body, _ = call(
            status, "POST", "/s/stateful_counter_simple_agent/run", json.loads(ROWS.read_text().splitlines()[0])
        )
        assert (code, json.loads(body)["reward"]) == (200, 1.0)
        assert not any("building" in one.detail for seen in other.seen for one in seen.replicas)


def test_what_is_not_a_saved_stack_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with engine_client():
        pass
    (tmp_path / "text").write_text("hello")
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    for name, words in {
        "text": "cannot be read",
        "empty.tar": "it holds no stack",
        "missing": "cannot be read",
    }.items():
        with pytest.raises(UserError, match=words):
            load_stack_file(tmp_path / name, tmp_path / "home")
    with pytest.raises(UserError, match="no built stack"):
        save_stack(tmp_path / "nowhere", tmp_path / "out")
