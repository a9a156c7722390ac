"""A local stack with a broker, by the `gym` command: up, look, enter, remove; killed, changed, taken down."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gym.runtime.identity import identify
from gym.server.testing import Caller
from tests.support.cli import Terminal, gym
from tests.support.sandbox_stack import FINISHED, ROW, listed, replica, write_coder
from tests.support.stacks import files_below, until

UP = ("up", "coder", "--runtime", "local", "--port", "0", "--sandbox-provider", "subprocess")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A working folder whose stack runs; whatever a test left there is ended."""
    write_coder(tmp_path, "host")
    yield tmp_path
    gym("down", cwd=tmp_path)
    until(lambda: processes_of(tmp_path) == [])


def processes_of(folder: Path) -> list[str]:
    """Command lines of the processes of this folder's stack and of its sandboxes."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            environ = (entry / "environ").read_bytes()
            if entry.name.isdigit() and str(folder).encode() in environ and int(entry.name) != os.getpid():
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue
    return found


async def seeded(folder: Path) -> Caller:
    caller = Caller(replica(folder, "coder-1")["url"])
    assert (await caller.post("/seed_session", ROW)).status == 200
    return caller


async def run(caller: Caller, command: str) -> dict[str, Any]:
    answered = await caller.post("/shell", {"command": command})
    assert answered.status == 200, answered.body
    body: dict[str, Any] = answered.body
    return body


def up(folder: Path, *words: str) -> str:
    started = gym(*UP, *words, cwd=folder)
    assert started.returncode == 0, started.stderr
    return started.stderr


async def test_a_sandbox_lives_from_seed_to_verify_and_people_can_look_in(folder: Path) -> None:
    said = up(folder)
    assert "sandboxes: subprocess, which isolates nothing" in said
    assert replica(folder, "sandbox")["state"] == "healthy"
    async with await seeded(folder) as caller:
        reply = await run(caller, "echo hello")
        assert (reply["out"], reply["code"]) == ("hello\n", 0)
        (shown,) = listed(folder)
        assert (shown["id"], shown["instance"], shown["rollout"]) == (reply["sandbox"], "coder", "the-rollout")

        inside = gym(
            "sandbox", "exec", reply["sandbox"], "--", "sh", "-c", "echo out; echo err >&2; exit 7", cwd=folder
        )
        assert (inside.stdout, inside.stderr, inside.returncode) == ("out\n", "err\n", 7)
        slow = gym("sandbox", "exec", reply["sandbox"][:6], "--timeout", "0.2", "--", "sleep", "60", cwd=folder)
        assert slow.returncode == 124
        verified = await caller.post("/verify", FINISHED)
        assert (verified.status, verified.body["reward"]) == (200, 1.0)
    assert listed(folder) == []
    assert "sandbox" in gym("logs", "sandbox", cwd=folder).stdout


async def test_a_person_removes_one_and_its_user_gets_the_reason(folder: Path) -> None:
    up(folder)
    async with await seeded(folder) as caller:
        reply = await run(caller, "true")
        removed = gym("sandbox", "rm", "--all", cwd=folder)
        assert removed.returncode == 0, removed.stderr
        assert reply["sandbox"] in removed.stderr
        answered = await caller.post("/shell", {"command": "true"})
        assert answered.status >= 500
        assert answered.body["error"]["kind"] == "sandbox"
        assert answered.body["error"]["retryable"] is True
    unknown = gym("sandbox", "exec", "nothing", "--", "true", cwd=folder)
    assert unknown.returncode == 1
    assert "There is no sandbox nothing" in unknown.stderr


async def test_a_terminal_in_a_sandbox(folder: Path) -> None:
    up(folder)
    async with await seeded(folder) as caller:
        reply = await run(caller, "true")
        with Terminal("sandbox", "attach", reply["sandbox"], cwd=folder) as terminal:
            terminal.wait_for(r"[#$] $")
            terminal.write("tty && echo to''gether && exit 5\n")
            terminal.wait_for("/dev/pts/")
            terminal.wait_for("together")
            assert terminal.wait() == 5
            assert terminal.is_sane()


async def test_down_leaves_nothing_also_when_the_broker_was_killed(folder: Path) -> None:
    up(folder)
    async with await seeded(folder) as caller:
        await run(caller, f"FOLDER={folder} sleep 1000 & echo started")
        until(lambda: any("sleep 1000" in line for line in processes_of(folder)))
        pid = replica(folder, "sandbox")["pid"]
        os.kill(pid, signal.SIGKILL)
        until(lambda: identify(pid) is None)
    assert gym("down", cwd=folder).returncode == 0
    until(lambda: processes_of(folder) == [])
    assert listed(folder) == []
    assert not (folder / ".gym" / "gym" / "sandbox-tokens.json").exists()


async def test_a_killed_server_loses_its_sandboxes_with_its_lease(folder: Path) -> None:
    up(folder, "sandbox_settings={lease_seconds: 2}")
    async with await seeded(folder) as caller:
        await run(caller, "true")
        assert len(listed(folder)) == 1
        os.kill(replica(folder, "coder-1")["pid"], signal.SIGKILL)
        until(lambda: listed(folder) == [])


async def test_another_grant_replaces_the_broker_and_its_holder_only(folder: Path) -> None:
    up(folder)
    before = {name: replica(folder, name)["pid"] for name in ("sandbox", "coder-1", "console")}
    config = folder / "servers/resources/coder/configs/coder.yaml"
    config.write_text(config.read_text().replace("warm: 0", "warm: 0, max_sandboxes: 1"))
    said = up(folder)
    assert "grants changed" in said
    after = {name: replica(folder, name)["pid"] for name in before}
    assert {name for name in before if before[name] != after[name]} == {"sandbox", "coder-1"}
    async with await seeded(folder) as caller:
        assert (await run(caller, "echo again"))["out"] == "again\n"


def test_nothing_of_a_token_is_on_a_command_line_or_in_a_log(folder: Path) -> None:
    up(folder)
    home = folder / ".gym" / "gym"
    tokens = json.loads((home / "sandbox-tokens.json").read_text())
    secrets = [tokens["operator"], *tokens["instances"].values()]
    others = {path: text for path, text in files_below(home).items() if path.name != "sandbox-tokens.json"}
    assert len(others) > 5
    for path, text in others.items():
        assert not any(secret.encode() in text for secret in secrets), path
    assert not any(secret in line for secret in secrets for line in processes_of(folder))


def test_a_server_without_a_grant_gets_an_error_with_the_line_to_write(tmp_path: Path) -> None:
    write_coder(tmp_path, "host", granted=False)
    started = gym(*UP, cwd=tmp_path)
    assert started.returncode == 1
    assert "coder asks for sandboxes, and its configuration grants it none" in started.stderr
    assert "Add `sandbox:` to coder's config" in started.stderr
    assert "Traceback" not in started.stderr


def test_a_stack_without_a_broker_says_so(tmp_path: Path) -> None:
    refused = gym("sandbox", "exec", "sb1", "--", "true", cwd=tmp_path)
    assert refused.returncode == 1
    assert "No stack 'gym'" in refused.stderr
    assert "of all stacks on this machine's engine" in gym("sandbox", "ls", cwd=tmp_path).stderr


async def test_bubblewrap_serves_a_whole_stack(folder: Path) -> None:
    if not shutil.which("bwrap"):
        pytest.skip("no bubblewrap here")
    said = up(folder, "--sandbox-provider", "bubblewrap")
    assert "sandboxes: bubblewrap" in said
    async with await seeded(folder) as caller:
        reply = await run(caller, f"echo kept > /tmp/file; ls {folder} 2>&1; kill -9 1; cat /proc/net/dev | wc -l")
        assert "No such file" in reply["out"]
        assert reply["out"].splitlines()[-1] == "3"  # the loopback alone, below two lines of heads
        assert (await run(caller, "cat /tmp/file"))["out"] == "kept\n"
        verified = await caller.post("/verify", FINISHED)
        assert (verified.status, verified.body["reward"]) == (200, 1.0)
    assert listed(folder) == []
    await seeded(folder)
    assert gym("down", cwd=folder).returncode == 0
    assert list((folder / ".gym").rglob("sandboxes/*")) == []
