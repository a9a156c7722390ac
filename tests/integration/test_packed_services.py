"""A service beside a packed environment: what was packed, or locked, runs, whatever its image's name means by then."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gym import labels
from gym.programs import run_program
from gym.runtime.status import StackStatus
from tests.integration.test_cli_compose import engine
from tests.support.cli import gym
from tests.support.docker import call, engine_client, remove_images_of
from tests.support.registry import registry_in, remove_references

pytestmark = [pytest.mark.docker, pytest.mark.long]

CONFIG = """
greeted:
  resources_servers:
    greeted:
      entrypoint: app.py
      domain: other
      python_version: "3.13"
      greeter: http://${service:greeter}/greeting
  services:
    greeter: {image: SIDE, arguments: [python3, -m, http.server, "80", --directory, /srv], port: 80, health: /greeting}
"""
APP = """
import sys
import urllib.request

from gym.server import ResourcesServer, VerifyRequest
from gym.server.resources import ResourcesConfig
from gym.server.score import Score

class GreetedConfig(ResourcesConfig):
    greeter: str

class Said(Score):
    greeting: str
    python: str

class Greeted(ResourcesServer):
    config: GreetedConfig

    async def verify(self, rollout: VerifyRequest) -> Said:
        with urllib.request.urlopen(self.config.greeter) as reply:
            return Said(reward=1.0, greeting=reply.read().decode(), python=sys.prefix)

app = Greeted.app()
"""
ROW = {"responses_create_params": {"input": "Hello"}, "response": {"output": []}}


class Shop(NamedTuple):
    author: Path
    user: Path
    registry: str

    @property
    def image(self) -> str:
        return f"{self.registry}/team/greeted:1"

    @property
    def side(self) -> str:
        return f"{self.registry}/team/greeter:1"

    @property
    def env(self) -> dict[str, str]:
        return {**engine(), "GYM_CACHE_DIR": str(self.user / "cache")}

    def run(self, *words: str, cwd: Path | None = None) -> str:
        done = gym(*words, cwd=cwd or self.user, env=self.env, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def push_side(self, greeting: str) -> str:
        """The engine's own digest of the image that the name means now."""
        folder = self.author.parent / "side"
        folder.mkdir(exist_ok=True)
        (folder / "greeting").write_text(greeting)
        (folder / "Dockerfile").write_text("FROM python:3.13-slim\nCOPY greeting /srv/greeting\n")
        run_program(["docker", "build", "--quiet", "--tag", self.side, str(folder)])
        run_program(["docker", "push", "--quiet", self.side])
        with engine_client() as client:
            return str(client.images.get(self.side).id)

    def said(self) -> dict[str, Any]:
        status = StackStatus.read(json.loads(self.run("ps", "--json")))
        code, body, _ = call(status, "POST", "/s/greeted/verify", ROW)
        assert code == 200, body
        found: dict[str, Any] = json.loads(body)
        return found


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    root = tmp_path_factory.mktemp("shop")
    with registry_in(root) as registry:
        made = Shop(root / "project", root / "user", registry)
        for folder in (made.author, made.user):
            folder.mkdir()
        (made.author / "greeted.yaml").write_text(CONFIG.replace("SIDE", made.side))
        (made.author / "app.py").write_text(f"{APP}# {root}\n")
        try:
            yield made
        finally:
            ended = gym("down", cwd=made.user, env=made.env)
            assert ended.returncode == 0, ended.stdout + ended.stderr
            remove_references(registry)
            remove_images_of(root)


def test_what_was_packed_and_locked_runs_when_its_image_s_name_means_another(shop: Shop) -> None:
    packed = shop.push_side("hello of old")
    shop.run("pack", "greeted", "-t", shop.image, cwd=shop.author)
    with engine_client() as client:
        manifest = json.loads(client.images.get(shop.image).labels[labels.PACK])
        digest = next(one for one in client.images.get(shop.side).attrs["RepoDigests"]).partition("@")[2]
    assert manifest["services"] == {"greeted.greeter": f"{shop.side}@{digest}"}
    shop.run("push", shop.image, cwd=shop.author)
    assert shop.push_side("hello of today") != packed
    remove_references(shop.registry)

    refused = gym("up", shop.image, "--model", "scripted", "--port", "0", cwd=shop.user, env=shop.env)
    assert refused.returncode == 1
    assert f"services: greeter runs the image {shop.side} beside it" in refused.stderr
    shop.run("pull", shop.image, "--trust")
    shop.run("up", shop.image, "--model", "scripted", "--port", "0")
    said = shop.said()
    assert said["greeting"] == "hello of old"
    assert said["python"].startswith("/opt/server")  # an environment of its own, as its configuration asks
    assert digest in shop.run("info", shop.image)

    shop.run("lock")
    locked = json.loads((shop.user / "gym.lock").read_text())["services"]["greeted.greeter"]
    assert (locked["id"], locked["image"]) == (packed, f"{shop.side.rpartition(':')[0]}@{digest}")
    shop.run("up", shop.image, "--model", "scripted", "--port", "0", "--locked")
