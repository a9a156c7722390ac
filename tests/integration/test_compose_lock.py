"""What `gym lock` wrote down is insisted on, and a watched folder is rebuilt and replaced when it changes."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym.errors import UserError
from gym.runtime.compose import ComposeRuntime
from gym.runtime.watch import wait_for_change, watched_folders
from tests.support.docker import Stand, call, stand_in, write_server

pytestmark = pytest.mark.docker

ECHO = """
from gym.server import ResourcesServer, tool

class Echo(ResourcesServer):
    @tool
    async def version(self) -> dict[str, str]:
        \"\"\"Which one am I?\"\"\"
        return {"version": "one"}

    async def verify(self, rollout) -> float:
        return 1.0

app = Echo.app()
"""
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
    edit = threading.Timer(0.2, lambda: write_server(stand.cwd, "echo", ECHO.replace('"one"', '"two"')))
    edit.start()
    changed = wait_for_change(watched_folders(plan))
    assert [Path(path).name for path in changed if path.endswith("app.py")] == ["app.py"]
    status = stand.up("echo")
    assert json.loads(call(status, "POST", "/s/echo/version", {})[1]) == {"version": "two"}
