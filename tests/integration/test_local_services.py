"""Services beside a server on the local runtime: reached by it, restarted when they die, gone when the stack is."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from gym.config.model import SidecarSpec
from gym.errors import NotUp
from gym.plan.model import Plan, Sidecar
from gym.runtime.local import LocalRuntime
from tests.support.cli import gym
from tests.support.stacks import all_gone, call, make_service, make_stack, recorded, replica, start, until

FILES = (sys.executable, "-m", "http.server", "${port}", "--bind", "127.0.0.1", "--directory", "${folder}")


def stack_with(tmp_path: Path, *command: str, digest: str = "one") -> Plan:
    server = make_service(tmp_path, "mine", files="http://${service:files}", port="${service:files.port}")
    spec = SidecarSpec(name="files", port=80, command=command)
    beside = Sidecar(instance="mine", instance_slug="mine", slug="mine-files", spec=spec, digest=digest)
    return make_stack(server).model_copy(update={"sidecars": (beside,)})


def pid_of(home: Path, name: str) -> int:
    found = replica(LocalRuntime().status(home), name)
    return found.pid or 0


def test_a_server_finds_its_service_and_down_leaves_nothing_of_it(home: Path, tmp_path: Path) -> None:
    status = start(home, stack_with(tmp_path, *FILES))
    beside = replica(status, "mine-files")
    assert (beside.instance, beside.type, beside.state) == ("mine.files", "service", "healthy")
    fields = call(replica(status, "mine-1").url)["fields"]
    assert fields["files"] == beside.url
    (home / "services" / "mine-files" / "kept.txt").write_text("here")
    with urlopen(f"{fields['files']}/kept.txt", timeout=60) as reply:
        assert reply.read() == b"here"
    running = recorded(home)
    assert LocalRuntime().down(home)
    assert len(running) == 5  # with the supervisor
    assert all_gone(running)
    assert not (home / "services").exists()


def test_one_that_is_killed_is_restarted_at_its_port_with_what_it_stored(home: Path, tmp_path: Path) -> None:
    status = start(home, stack_with(tmp_path, *FILES))
    url, first, server = replica(status, "mine-files").url, pid_of(home, "mine-files"), pid_of(home, "mine-1")
    (home / "services" / "mine-files" / "kept.txt").write_text("here")
    os.kill(first, signal.SIGKILL)
    until(lambda: pid_of(home, "mine-files") not in (0, first))
    until(lambda: replica(LocalRuntime().status(home), "mine-files").state == "healthy")
    with urlopen(f"{url}/kept.txt", timeout=60) as reply:
        assert reply.read() == b"here"
    assert pid_of(home, "mine-1") == server


def test_one_that_changed_is_replaced_alone(home: Path, tmp_path: Path) -> None:
    before = start(home, stack_with(tmp_path, *FILES))
    runtime, after = LocalRuntime(), stack_with(tmp_path, *FILES, digest="two")
    changes = runtime.changes(home, runtime.prepare(home, after, {}))
    assert [one.service for one in changes if one.action != "keep"] == ["mine.files"]
    status = start(home, after)
    assert replica(status, "mine-files").pid != replica(before, "mine-files").pid
    assert replica(status, "mine-files").url == replica(before, "mine-files").url
    assert replica(status, "mine-1").pid == replica(before, "mine-1").pid


def test_one_that_ends_at_each_start_is_named_with_its_last_words(home: Path, tmp_path: Path) -> None:
    with pytest.raises(NotUp) as caught:
        start(home, stack_with(tmp_path, "sh", "-c", "echo no room for a database; exit 3"))
    assert "mine-files" in str(caught.value)
    assert "no room for a database" in str(caught.value)


def test_redis_store_by_its_name(home: Path, tmp_path: Path) -> None:
    """As its user starts it: the password stands nowhere, and a Redis that dies costs a retry."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not on this machine: apt-get install redis-server")
    environ = {"REDIS_STORE_PASSWORD": "a-canary-for-redis"}
    try:
        up = gym("up", "redis_store", "--runtime", "local", "--port", "0", cwd=tmp_path, env=environ)
        assert up.returncode == 0, up.stderr
        status = json.loads(gym("ps", "--json", cwd=tmp_path).stdout)
        (redis,) = [one for one in status["replicas"] if one["type"] == "service"]
        command = Path("/proc", str(redis["pid"]), "cmdline")
        if command.exists():
            assert b"a-canary" not in command.read_bytes()
        rollouts = gym("rollouts", "redis_store", "-o", "out.jsonl", cwd=tmp_path)
        assert rollouts.returncode == 0, rollouts.stderr
        rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        assert [one["final_store"] is not None for one in rows] == [True] * 5
        assert "Ready to accept connections" in gym("logs", "redis_store.redis", cwd=tmp_path).stdout
        for path in (tmp_path / ".gym").rglob("*"):
            assert not path.is_file() or b"a-canary" not in path.read_bytes(), path
    finally:
        gym("down", cwd=tmp_path)
