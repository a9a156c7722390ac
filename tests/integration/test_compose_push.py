"""Built images go to a registry and come back from it; Debian's docker-registry is one, where it is installed."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.test_cli_compose import engine
from tests.support.cli import gym
from tests.support.docker import engine_client, eventually, need_engine, remove_images_of, write_server

pytestmark = pytest.mark.docker

SERVER = """
from gym.server import ResourcesServer

class Fine(ResourcesServer):
    async def verify(self, rollout) -> float:
        return 1.0

app = Fine.app()
"""


def ask(registry: str, path: str) -> bytes:
    host, _, port = registry.partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().read()
    finally:
        connection.close()


def answers(registry: str) -> bool:
    try:
        return ask(registry, "/v2/") == b"{}"
    except OSError:
        return False


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """`127.0.0.1:PORT`: the engine asks no certificate of a registry on loopback."""
    need_engine()
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("no docker-registry on the PATH (Debian: apt-get install docker-registry)")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = tmp_path / "registry.yml"
    storage = {"filesystem": {"rootdirectory": str(tmp_path / "registry")}, "delete": {"enabled": True}}
    config.write_text(json.dumps({"version": "0.1", "storage": storage, "http": {"addr": f"127.0.0.1:{port}"}}))
    with (tmp_path / "registry.log").open("wb") as log:
        process = subprocess.Popen([program, "serve", str(config)], stdout=log, stderr=log)
    try:
        eventually(lambda: answers(f"127.0.0.1:{port}"), bool)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(120)


def test_built_images_are_pushed_and_can_be_pulled(tmp_path: Path, registry: str) -> None:
    cwd = tmp_path / "work"
    write_server(cwd, "fine", SERVER)
    try:
        pushed = gym("build", "fine", "--push", f"{registry}/team/", cwd=cwd, env=engine(), timeout=300)
        assert pushed.returncode == 0, pushed.stderr
        names = json.loads(ask(registry, "/v2/_catalog"))["repositories"]
        assert names == ["team/gym-base", "team/gym-fine"]
        (tag,) = json.loads(ask(registry, "/v2/team/gym-fine/tags/list"))["tags"]
        reference = f"{registry}/team/gym-fine:{tag}"
        assert reference in pushed.stderr
        with engine_client() as client:
            client.api.remove_image(reference)
            client.api.pull(reference)
            assert client.images.get(reference).attrs["Config"]["Cmd"][-1] == "app.py"
    finally:
        remove_references(registry)
        remove_images_of(cwd)


def remove_references(registry: str) -> None:
    with engine_client() as client:
        for image in client.api.images():
            for reference in image.get("RepoTags") or ():
                if reference.startswith(f"{registry}/"):
                    client.api.remove_image(reference)
