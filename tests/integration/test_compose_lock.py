"""What `gym lock` wrote down is insisted on, and a watched folder is rebuilt and replaced when it changes."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym.errors import UserError
from gym.runtime.compose import ComposeRuntime
from gym.runtime.compose.image_sources import python_image
from gym.runtime.compose.layout import Layout
from gym.runtime.compose.pins import LABEL_LOCKED
from gym.runtime.compose.server_builds import ServerBuildFailed
from gym.runtime.file_watch import take_stamps, wait_for_change, watched_folders
from tests.support.bill import check_bill
from tests.support.docker import ECHO, Stand, call, engine_client, stand_in, write_server

pytestmark = pytest.mark.docker

DATA = "        datasets: [{name: example, type: example, license: CC0, jsonl_fpath: rows.jsonl}]\n"


@pytest.fixture
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stand]:
    monkeypatch.chdir(tmp_path)
    with stand_in(tmp_path) as stand:
        yield stand


def test_a_locked_stack_starts_as_it_was_and_refuses_to_be_another(stand: Stand, tmp_path: Path) -> None:
    write_server(stand.cwd, "echo", ECHO, requirements="six\n", config=DATA)
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\n')
    stand.up("echo")
    lock = stand.runtime.lock(stand.home, tmp_path / "gym.lock")
    assert lock.instances["echo"].id.startswith("sha256:")
    assert any(line.startswith("six==") for line in lock.instances["echo"].requirements)
    assert any(line.startswith("pydantic==") for line in lock.instances["echo"].requirements)
    check_bill(stand, lock, tmp_path)

    stand.runtime = ComposeRuntime(locked=tmp_path / "gym.lock")
    assert stand.up("echo").healthy
    write_server(stand.cwd, "echo", ECHO.replace('"one"', '"two"'), requirements="six\n", config=DATA)
    (tmp_path / "rows.jsonl").write_text('{"a": 2}\n')
    with pytest.raises(UserError) as caught:
        stand.up("echo")
    assert "echo: its sources, requirements or base changed" in caught.value.what
    assert "rows.jsonl: the data set changed" in caught.value.what
    status = stand.runtime.status(stand.home)
    assert status is not None
    assert status.healthy  # what ran goes on as it was
    assert json.loads(call(status, "POST", "/s/echo/version", {})[1]) == {"version": "one"}


def test_an_image_that_is_gone_is_built_from_the_lock_alone_by_its_hashes(stand: Stand, tmp_path: Path) -> None:
    write_server(stand.cwd, "echo", ECHO, requirements="six\n")
    stand.up("echo")
    lock = stand.runtime.lock(stand.home, tmp_path / "gym.lock", lambda *words: pytest.fail(" ".join(words)))
    hashed = "\n".join(lock.instances["echo"].hashed)
    assert "six==" in hashed
    assert hashed.count("--hash=sha256:") >= 2  # of every file that an index has of that version
    stand.down()
    image, base = lock.instances["echo"].image, lock.bases[python_image()]
    with engine_client() as client:
        client.images.remove(image)

    stand.runtime = ComposeRuntime(locked=tmp_path / "gym.lock")
    assert stand.up("echo").healthy
    text = (stand.home / "build" / "echo.Dockerfile").read_text()
    assert "uv pip install --quiet --compile-bytecode --require-hashes --no-deps -r /opt/gym/locked.txt" in text
    with engine_client() as client:
        made = client.images.get(image)
        assert made.id != lock.instances["echo"].id  # of another moment
        marked = client.images.get(read_base(stand))
        known = client.images.get(python_image())
        assert marked.labels[LABEL_LOCKED]
        assert base in (known.id, *(one.partition("@")[2] for one in known.attrs["RepoDigests"]))
    assert stand.up("echo").healthy  # and is what the lock says from then on
    stand.down()
    with engine_client() as client:
        client.images.remove(image)

    forged = re.sub("--hash=sha256:[0-9a-f]{64}", f"--hash=sha256:{'0' * 64}", (tmp_path / "gym.lock").read_text())
    (tmp_path / "gym.lock").write_text(forged)
    with pytest.raises(ServerBuildFailed, match="(?i)hash mismatch"):
        stand.up("echo")


def read_base(stand: Stand) -> str:
    return Layout(stand.home).read_state().base_image


def test_a_lock_that_cannot_be_read_is_an_error_with_the_command_that_writes_one(stand: Stand, tmp_path: Path) -> None:
    write_server(stand.cwd, "echo", ECHO)
    (tmp_path / "bad.lock").write_text("{}")
    for name in ("missing.lock", "bad.lock"):
        stand.runtime = ComposeRuntime(locked=tmp_path / name)
        with pytest.raises(UserError) as caught:
            stand.up("echo")
        assert "gym lock" in caught.value.hint


def test_an_edited_server_is_rebuilt_and_replaced_while_it_is_watched(stand: Stand) -> None:
    write_server(stand.cwd, "echo", ECHO)
    plan, secrets = stand.plan("echo")
    stand.up_plan(plan, secrets)
    before = take_stamps(watched_folders(plan))
    edit = threading.Timer(0.2, lambda: write_server(stand.cwd, "echo", ECHO.replace('"one"', '"two"')))
    edit.start()
    changed = wait_for_change(watched_folders(plan), since=before)
    edit.join()
    assert [Path(path).name for path in changed if path.endswith("app.py")] == ["app.py"]
    status = stand.up("echo")
    assert json.loads(call(status, "POST", "/s/echo/version", {})[1]) == {"version": "two"}
