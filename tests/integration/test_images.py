"""Images on a real engine: the base without rights or secrets, servers that share it, builds that do nothing twice."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from gym.engine import docker_environ
from gym.errors import UserError
from gym.plan import Plan
from gym.programs import run_program
from gym.runtime.compose.server_builds import ServerBuildFailed
from tests.support.docker import Stand, engine_client, need_engine, stand_in, write_server

pytestmark = pytest.mark.docker

FINE = """
from gym.server import ResourcesServer

class Fine(ResourcesServer):
    async def verify(self, rollout) -> float:
        return 1.0

app = Fine.app()
"""


UNCOMPILED = """
import os, sys, {}
cached = {{getattr(one, "__cached__", None) for one in list(sys.modules.values())}} - {{None}}
print(" ".join(sorted(one for one in cached if not os.path.exists(one))))
"""


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    with stand_in(tmp_path) as stand:
        yield stand


def build(stand: Stand, plan: Plan, push: str = "") -> tuple[str, ...]:
    stand.home.mkdir(parents=True, exist_ok=True)
    return stand.runtime.build(stand.home, stand.runtime.prepare(stand.home, plan, {}), stand.seen.append, push=push)


def image_of(stand: Stand, plan: Plan, name: str) -> str:
    return stand.images(plan).by_instance[name]


def layers(tag: str) -> list[str]:
    with engine_client() as client:
        found: list[str] = client.images.get(tag).attrs["RootFS"]["Layers"]
        return found


def run(tag: str, *argv: str) -> str:
    whole = ("docker", "run", "--rm", "--network", "none", tag, *argv)
    return run_program(whole, env=docker_environ(need_engine())).strip()


def test_an_unchanged_server_builds_nothing_and_a_changed_one_only_itself(stand: Stand) -> None:
    for name in ("one", "two"):
        write_server(stand.cwd, name, FINE + f"# {stand.cwd}\n")
    plan, _ = stand.plan("one", "two")
    assert {tag.partition(":")[0] for tag in build(stand, plan)} >= {"gym-one", "gym-two"}
    assert build(stand, plan) == ()
    write_server(stand.cwd, "one", FINE + f"# changed {stand.cwd}\n")
    assert [tag.partition(":")[0] for tag in build(stand, stand.plan("one", "two")[0])] == ["gym-one"]


def test_servers_share_the_layers_of_the_base_and_add_little(stand: Stand) -> None:
    names = [f"server{number}" for number in range(10)]
    for name in names:
        write_server(stand.cwd, name, FINE + f"# {name} {stand.cwd}\n")
    plan, _ = stand.plan(*names)
    build(stand, plan)
    with engine_client() as client:
        base = client.images.get(stand.images(plan).base)
        shared = base.attrs["RootFS"]["Layers"]
        for name in names:
            image = client.images.get(image_of(stand, plan, name))
            assert image.attrs["RootFS"]["Layers"][: len(shared)] == shared, name
            assert image.attrs["Size"] - base.attrs["Size"] < 1_000_000, name


def test_a_server_with_requirements_of_its_own_installs_them_in_one_layer_of_their_own(stand: Stand) -> None:
    write_server(stand.cwd, "six_user", "import six\n" + FINE, requirements="six\n")
    plan, _ = stand.plan("six_user")
    build(stand, plan)
    before = layers(image_of(stand, plan, "six_user"))
    write_server(stand.cwd, "six_user", "import six\n" + FINE + "# changed\n", requirements="six\n")
    changed, _ = stand.plan("six_user")
    build(stand, changed)
    after = layers(image_of(stand, changed, "six_user"))
    assert after[:-1] == before[:-1]  # only the layer of the code is another
    assert after[-1] != before[-1]
    assert "six" in run(image_of(stand, changed, "six_user"), "uv", "pip", "freeze")


def test_the_base_runs_as_a_user_without_rights_and_holds_the_sdk_alone(stand: Stand) -> None:
    write_server(stand.cwd, "fine", FINE)
    plan, _ = stand.plan("fine")
    build(stand, plan)
    tag = image_of(stand, plan, "fine")
    assert run(tag, "id", "-u") == "10001"
    assert run(tag, "python", "-c", "import gym.server; print('sdk')") == "sdk"
    script = "import importlib.util as u; print([name for name in ('typer', 'docker', 'rich') if u.find_spec(name)])"
    assert run(tag, "python", "-c", script) == "[]"
    assert run(tag, "sh", "-c", "touch /app/x 2>&1 || echo refused").endswith("refused")


@pytest.mark.long
def test_a_python_that_comes_uncompiled_is_compiled_in_the_base_and_not_at_each_start(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As official images of Python do. A server may write nothing, so what was not compiled before never is."""
    write_server(stand.cwd, "one", FINE + f"# {stand.cwd}\n")
    bare = f"gym-test-bare-python:{uuid.uuid4().hex[:12]}"
    folders = "$(python3 -c 'import sysconfig; print(sysconfig.get_path(\"stdlib\"))')"
    text = f"FROM python:3.13-slim\nRUN find {folders} -name '*.pyc' -delete\n"
    environ = docker_environ(need_engine())
    subprocess.run(("docker", "build", "--quiet", "--tag", bare, "-"), input=text.encode(), env=environ, check=True)
    monkeypatch.setenv("GYM_PYTHON_IMAGE", bare)
    plan, _ = stand.plan("one")
    try:
        build(stand, plan)
        assert "wave.cpython" in run(image_of(stand, plan, "one"), "python", "-c", UNCOMPILED.format("wave"))
        assert run(image_of(stand, plan, "one"), "python", "-c", UNCOMPILED.format("gym.server.serve")) == ""
    finally:
        run_program(("docker", "rmi", "--force", bare), env=environ)


def test_the_hosts_package_settings_reach_a_build_and_stay_in_no_layer(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy that is not there: the build must fail for want of it, and name it nowhere but in its own secret."""
    write_server(stand.cwd, "six_user", FINE, requirements=f"six==1.16.0  # {stand.cwd}\n")
    plan, _ = stand.plan("six_user")
    build(stand, stand.plan("mcqa")[0])  # the base, with the settings as they are
    canary = "http://canary-user:canary-word@127.0.0.1:9"
    with monkeypatch.context() as patched:
        patched.setenv("UV_DEFAULT_INDEX", f"{canary}/simple")
        patched.setenv("UV_INDEX_STRATEGY", "first-index")
        with pytest.raises(ServerBuildFailed, match="six_user|six-user") as caught:
            build(stand, plan)
    assert "canary-word" not in str(caught.value)
    build(stand, plan)
    with engine_client() as client:
        image = client.images.get(image_of(stand, plan, "six_user"))
        assert "canary" not in json.dumps(image.attrs) + json.dumps(image.history())
    secrets = {path.name for path in (stand.home / "build").iterdir() if path.stat().st_mode & 0o077 == 0}
    assert "index" in secrets


def test_pushing_to_an_unknown_registry_is_a_sentence(stand: Stand) -> None:
    write_server(stand.cwd, "fine", FINE)
    plan, _ = stand.plan("fine")
    prefix = "127.0.0.1:9/team"
    try:
        with pytest.raises(UserError, match=rf"{prefix}/gym-base:\w+ cannot be pushed"):
            build(stand, plan, push=prefix)
    finally:
        with engine_client() as client:
            for image in client.images.list(name=f"{prefix}/gym-base"):
                for tag in image.tags:
                    if tag.startswith(prefix):
                        client.api.remove_image(tag)


@pytest.mark.parametrize("script", ["docker-engine", "airgap"])
def test_where_an_engine_and_the_images_are_the_scripts_do_nothing_and_say_nothing(stand: Stand, script: str) -> None:
    write_server(stand.cwd, "fine", FINE)
    build(stand, stand.plan("fine")[0])
    path = Path(__file__).parents[2] / "scripts" / script
    done = subprocess.run([path], env=docker_environ(need_engine()), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
