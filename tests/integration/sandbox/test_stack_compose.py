"""A Compose stack with a broker: the socket is its alone, people reach it without a port, and down leaves nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gym.broker.providers.docker.image_build import build_tag
from gym.engine import connect, require_engine
from gym.runtime.status import StackStatus
from gym.wire.sandbox import Build, SandboxInfo
from tests.support.cli import gym
from tests.support.docker import call, end_processes, engine_client, eventually, need_engine, remove_images_of
from tests.support.sandbox_stack import FINISHED, NOTHING, ROW, labelled, listed, write_coder

pytestmark = pytest.mark.docker

IMAGE = "python:3.13-slim"
UP = ("up", "coder", "--runtime", "compose", "--port", "0")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    need_engine()
    write_coder(tmp_path, IMAGE)
    yield tmp_path
    try:
        gym("down", cwd=tmp_path)
        assert labelled(tmp_path) == NOTHING
    finally:
        remove_images_of(tmp_path)


def up(folder: Path) -> StackStatus:
    started = gym(*UP, cwd=folder, timeout=400)
    assert started.returncode == 0, started.stderr
    assert "sandboxes: docker" in started.stderr
    return StackStatus.read(json.loads(gym("ps", "--json", cwd=folder).stdout))


def container_of(status: StackStatus, name: str) -> dict[str, Any]:
    found = next(one.container for one in status.replicas if one.replica == name)
    with connect(require_engine().host) as client:
        facts: dict[str, Any] = client.api.inspect_container(found)
    return facts


def seeded(status: StackStatus) -> str:
    """A session with a sandbox: its cookies."""
    code, body, cookies = call(status, "POST", "/s/coder/seed_session", ROW)
    assert code == 200, body
    return "; ".join(cookies)


def shell(status: StackStatus, cookies: str, command: str) -> dict[str, Any]:
    code, body, _ = call(status, "POST", "/s/coder/shell", {"command": command}, Cookie=cookies)
    assert code == 200, body
    answer: dict[str, Any] = json.loads(body)
    return answer


def test_a_stack_with_sandboxes_from_up_to_down(folder: Path) -> None:
    status = up(folder)
    broker, coder = container_of(status, "sandbox"), container_of(status, "coder-1")
    assert [one["Destination"] for one in coder["Mounts"] if "docker.sock" in one["Destination"]] == []
    assert "/var/run/docker.sock" in [one["Destination"] for one in broker["Mounts"]]
    assert broker["Config"]["User"] not in ("", "0", "root")
    assert broker["HostConfig"]["CapDrop"] == ["ALL"]
    assert broker["HostConfig"]["ReadonlyRootfs"] is True
    assert broker["HostConfig"]["PortBindings"] in (None, {})
    assert len(broker["NetworkSettings"]["Networks"]) == 1
    assert not any("TOKEN" in one and "secret://" not in one for one in coder["Config"]["Env"])

    cookies = seeded(status)
    output = shell(status, cookies, "id -u; cat /proc/1/comm; ls /var/run/docker.sock 2>&1; env | grep -c GYM_ ")
    assert "No such file" in output["out"]
    assert output["out"].splitlines()[-1] == "0"
    (shown,) = [SandboxInfo.model_validate(one) for one in listed(folder)]
    assert (shown.id, shown.instance, shown.provider) == (output["sandbox"], "coder", "docker")
    assert shown.image.endswith(IMAGE)

    inside = gym("sandbox", "exec", shown.id, "--", "sh", "-c", "echo out; echo err >&2; exit 7", cwd=folder)
    assert (inside.stdout, inside.stderr, inside.returncode) == ("out\n", "err\n", 7)
    code, body, _ = call(status, "POST", "/s/coder/verify", FINISHED, Cookie=cookies)
    assert (code, json.loads(body)["reward"]) == (200, 1.0)
    assert listed(folder) == []

    seeded(status)
    assert len(labelled(folder)["containers"]) == 1
    assert gym("down", cwd=folder).returncode == 0
    assert labelled(folder) == NOTHING
    assert listed(folder) == []


def test_a_broker_that_crashed_comes_back_to_the_sandboxes_it_had(folder: Path) -> None:
    status = up(folder)
    cookies = seeded(status)
    before = shell(status, cookies, "echo kept > /tmp/file; echo ok")
    end_processes(next(one.container for one in status.replicas if one.replica == "sandbox"))

    def answers() -> dict[str, Any]:
        code, body, _ = call(status, "POST", "/s/coder/shell", {"command": "cat /tmp/file"}, Cookie=cookies)
        return {"code": code, **json.loads(body)}

    after = eventually(answers, lambda reply: reply.get("out") == "kept\n")
    assert after["sandbox"] == before["sandbox"]
    assert [one["id"] for one in listed(folder)] == [before["sandbox"]]


def test_down_leaves_nothing_of_a_stack_whose_broker_was_killed(folder: Path) -> None:
    status = up(folder)
    seeded(status)
    broker = container_of(status, "sandbox")
    with engine_client() as client:
        client.api.kill(broker["Id"], signal="SIGKILL")
    assert gym("down", cwd=folder).returncode == 0
    assert labelled(folder) == NOTHING


def test_a_server_that_is_gone_loses_its_sandboxes(folder: Path) -> None:
    status = up(folder)
    seeded(status)
    assert len(listed(folder)) == 1
    coder = container_of(status, "coder-1")
    with engine_client() as client:
        client.api.kill(coder["Id"], signal="SIGKILL")
    assert eventually(lambda: listed(folder), lambda found: found == []) == []


def test_sandboxes_live_on_when_the_broker_is_restarted_or_gets_more_grants(folder: Path) -> None:
    status = up(folder)
    cookies = seeded(status)
    before = shell(status, cookies, "echo kept > /tmp/file; echo ok")
    old = container_of(status, "sandbox")

    assert gym("restart", "sandbox", cwd=folder).returncode == 0
    after = shell(status, cookies, "cat /tmp/file")
    assert (after["sandbox"], after["out"]) == (before["sandbox"], "kept\n")
    assert container_of(status, "sandbox")["State"]["StartedAt"] != old["State"]["StartedAt"]
    assert (folder / ".gym" / "gym" / "sandbox" / "state" / "images.json").is_file()

    (folder / "more.yaml").write_text("sandbox_settings: {creates: 3}\n")
    changed = gym(*UP, "--config", "more.yaml", cwd=folder, timeout=400)
    assert changed.returncode == 0, changed.stderr
    again = StackStatus.read(json.loads(gym("ps", "--json", cwd=folder).stdout))
    assert container_of(again, "sandbox")["Id"] != old["Id"]
    after = shell(again, cookies, "cat /tmp/file")
    assert (after["sandbox"], after["out"]) == (before["sandbox"], "kept\n")
    assert [one["id"] for one in listed(folder)] == [before["sandbox"]]


def test_an_image_that_a_server_has_built_at_its_start_is_shown_until_it_is_there(folder: Path) -> None:
    dockerfile = f"FROM {IMAGE}\nRUN echo {folder} > /made && sleep 20\n"  # longer than anybody takes to look
    app = folder / "servers" / "resources" / "coder" / "app.py"
    begin = f"await self.sandboxes.begin_build(Build(dockerfile={dockerfile!r}))"
    code = app.read_text().replace("await self.sandboxes.begin()", begin).replace("import ExecR", "import Build, ExecR")
    app.write_text(code)
    config = folder / "servers" / "resources" / "coder" / "configs" / "coder.yaml"
    config.write_text(config.read_text().replace("warm: 0", "warm: 0, build: true"))
    try:
        started = gym(*UP, cwd=folder, timeout=400)
        assert started.returncode == 0, started.stderr
        assert "building the sandbox image of coder: Step" in started.stderr
        assert "the sandbox image of coder is ready, after" in started.stderr
        again = gym(*UP, cwd=folder, timeout=400)
        assert "sandbox image" not in again.stderr
    finally:
        with engine_client() as client:
            client.images.remove(build_tag(Build(dockerfile=dockerfile)))
