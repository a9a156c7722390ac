"""Built images go to a registry and come back from it; Debian's docker-registry is one, where it is installed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.test_cli_compose import engine
from tests.support.cli import gym
from tests.support.docker import engine_client, remove_images_of, write_server
from tests.support.registry import ask, registry_in, remove_references

pytestmark = pytest.mark.docker

SERVER = """
from gym.server import ResourcesServer

class Fine(ResourcesServer):
    async def verify(self, rollout) -> float:
        return 1.0

app = Fine.app()
"""


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    with registry_in(tmp_path) as address:
        yield address


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
