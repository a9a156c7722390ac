"""An environment as one image: packed here, started, read and tested where nothing but the image is."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gym import labels
from gym.programs import run_program
from tests.integration.test_cli_compose import engine
from tests.support.cli import gym
from tests.support.docker import engine_client, remove_images_of
from tests.support.registry import registry_in, remove_references

pytestmark = pytest.mark.docker

CONFIG = """
letters:
  resources_servers:
    letters:
      entrypoint: app.py
      domain: other
      kind: rule
      description: Counts letters
      datasets:
        - {name: rows, type: example, license: MIT, jsonl_fpath: rows.jsonl}
"""
APP = """
import six
from counting import count

from gym.server import ResourcesServer

class Letters(ResourcesServer):
    async def verify(self, rollout) -> float:
        return float(six.PY3 and count(rollout.text) >= rollout.row["least"])

app = Letters.app()
"""
TESTS = """
import os
from pathlib import Path

from counting import count

def test_it_counts() -> None:
    assert count("abc") == 3

def test_it_has_no_rights_here() -> None:
    assert os.getuid() == 10001
    assert not os.access(Path(__file__), os.W_OK)
"""


class Packed(NamedTuple):
    author: Path
    user: Path  # a folder with no server in it, and a cache of its own
    registry: str

    @property
    def image(self) -> str:
        return f"{self.registry}/team/letters:1.2"

    @property
    def env(self) -> dict[str, str]:
        return {**engine(), "GYM_CACHE_DIR": str(self.user / "cache"), "HOME": str(self.user)}


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Packed]:
    """Packed and pushed by its author, and gone from this engine."""
    root = tmp_path_factory.mktemp("packed")
    with registry_in(root) as registry:
        made = Packed(root / "project", root / "user", registry)
        write_project(made.author)
        made.user.mkdir()
        try:
            run("pack", "letters", "-t", made.image, cwd=made.author)
            run("push", made.image, cwd=made.author)
            remove_references(registry)
            yield made
        finally:
            gym("down", cwd=made.user, env=made.env)
            remove_references(registry)
            remove_images_of(made.author)


@pytest.fixture(scope="module")
def stack(packed: Packed) -> str:
    """What `gym up` said."""
    return run("up", packed.image, "--model", "scripted", "--port", "0", cwd=packed.user, env=packed.env, timeout=300)


def test_a_stack_of_an_image_and_its_agent_collects_its_own_rows_and_names_its_digest(
    packed: Packed, stack: str
) -> None:
    assert f"gym rollouts {packed.image} -o rollouts.jsonl" in stack
    run("rollouts", packed.image, "-o", "out.jsonl", cwd=packed.user, env=packed.env)
    rewards = [json.loads(line)["reward"] for line in (packed.user / "out.jsonl").read_text("utf-8").splitlines()]
    assert sorted(rewards) == [0.0, 1.0]
    (described,) = json.loads((packed.user / "out_run.json").read_text("utf-8"))["stacks"]
    with engine_client() as client:
        (digest,) = client.images.get(packed.image).attrs["RepoDigests"]
    assert described["images"] == {"letters": digest.partition("@")[2]}


def test_its_container_has_no_more_rights_than_one_that_was_built_here(packed: Packed, stack: str) -> None:
    with engine_client() as client:
        here = [f"{labels.STACK_DIR}={packed.user / '.gym' / 'gym'}"]
        containers = client.containers.list(filters={"label": here})
        found = {one.labels[labels.INSTANCE]: one.attrs for one in containers if labels.INSTANCE in one.labels}
    ours, built = found["letters"], found["letters_simple_agent"]
    for key in ("ReadonlyRootfs", "CapDrop", "SecurityOpt", "PidsLimit", "Memory", "Privileged", "Binds", "Tmpfs"):
        assert ours["HostConfig"][key] == built["HostConfig"][key], key
    assert ours["Config"]["User"] == "10001:10001"
    assert ours["Config"]["Image"].startswith("gym-pack-letters:")


def test_an_image_is_read_without_its_project(packed: Packed) -> None:
    shown = run("info", packed.image, cwd=packed.user, env=packed.env)
    for words in ("letters", "Counts letters", packed.image, "sha256:", "MIT", "least", "# Letters"):
        assert words in shown
    facts = json.loads(run("info", packed.image, "--json", cwd=packed.user, env=packed.env))
    assert Path(facts["directory"]).is_relative_to(packed.user / "cache" / "packs")


def test_an_image_is_tested_inside_itself(packed: Packed) -> None:
    done = gym("test", packed.image, cwd=packed.user, env=packed.env)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert "1 of 2" in done.stdout
    assert "the second case is wrong" in done.stdout
    with engine_client() as client:
        assert not client.containers.list(all=True, filters={"name": "gym-test-"})


def test_the_same_project_packed_again_is_the_same_image(packed: Packed) -> None:
    again = f"{packed.registry}/team/again:1"
    shutil.rmtree(packed.author / ".gym")
    (packed.author / "env.yaml").write_text("policy_api_key: sk-of-this-machine\n")
    for path in packed.author.iterdir():
        path.touch()
    run("pack", "letters", "-t", again, cwd=packed.author)
    run("pull", packed.image, cwd=packed.user, env=packed.env)
    with engine_client() as client:
        assert client.images.get(again).id == client.images.get(packed.image).id


def test_a_configuration_that_reads_this_machine_waits_for_a_word(packed: Packed, tmp_path: Path) -> None:
    write_project(tmp_path / "curious", CONFIG.replace("domain: other", "domain: other\n      home: ${oc.env:HOME}"))
    image = f"{packed.registry}/team/curious:1"
    try:
        run("pack", "letters", "-t", image, cwd=tmp_path / "curious")
        refused = gym("config", image, "--model", "scripted", cwd=packed.user, env=packed.env)
        assert refused.returncode == 1
        assert "reads the variable HOME of this machine" in refused.stderr
        run("push", image, cwd=tmp_path / "curious")
        run("pull", image, "--trust", cwd=packed.user, env=packed.env)
        shown = run("config", image, "--model", "scripted", cwd=packed.user, env=packed.env)
        assert f"home: {packed.user}" in shown
    finally:
        remove_images_of(tmp_path)


def test_images_that_cannot_be_used_say_so_in_one_sentence(packed: Packed) -> None:
    manifest = {"format": "gym-pack", "gym": "0.1.0", "name": "x", "type": "resources_servers"}
    manifest |= {"server": "servers/resources/x", "config": "servers/resources/x/x.yaml"}
    made = {
        "no packed environment": bare(packed, "plain", {}),
        "is for linux/s390x": bare(packed, "other", manifest, "linux/s390x"),
        "packed by compose-gym 9.9.9": bare(packed, "newer", {**manifest, "gym": "9.9.9"}),
        "has no folder /opt/gym/pack": bare(packed, "empty", manifest),
        "no such image": f"{packed.registry}/team/nothing:1",
    }
    for words, image in made.items():
        done = gym("up", image, "--model", "scripted", cwd=packed.user, env=packed.env)
        assert done.returncode == 1
        assert done.stderr.startswith(f"error: {image}"), done.stderr
        assert words in done.stderr


def test_a_pull_that_is_denied_says_how_to_log_in(packed: Packed, tmp_path: Path) -> None:
    with registry_in(tmp_path, closed=True) as registry:
        done = gym("info", f"{registry}/team/letters:1.2", cwd=packed.user, env=packed.env)
    assert done.returncode == 1
    assert "cannot be pulled: its registry denies it" in done.stderr
    assert f"docker login {registry}" in done.stderr


def run(*words: str, cwd: Path, env: dict[str, str] | None = None, timeout: float = 180) -> str:
    done = gym(*words, cwd=cwd, env=env or engine(), timeout=timeout)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write_project(folder: Path, config: str = CONFIG) -> None:
    """Its folder's name is not its own; it imports a file beside it and something from an index."""
    rows = [
        {"responses_create_params": {"input": [{"role": "user", "content": "Hello"}]}, "least": least}
        for least in (1, 1_000_000)
    ]
    cases = [case("a letter", 1.0), case("the second case is wrong", 0.0)]
    texts = {
        "letters.yaml": config,
        "app.py": f"{APP}# {folder}\n",
        "counting.py": "def count(text: str) -> int:\n    return len(text)\n",
        "rows.jsonl": "".join(f"{json.dumps(one)}\n" for one in rows),
        "requirements.txt": "six\n",
        "README.md": "# Letters\n\nLicence: MIT\n",
        "tests/test_counting.py": TESTS,
        "data/verifier_cases.jsonl": "".join(f"{json.dumps(one)}\n" for one in cases),
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


def case(name: str, reward: float) -> dict[str, Any]:
    content = [{"type": "output_text", "text": "abc", "annotations": []}]
    response = {"output": [{"type": "message", "role": "assistant", "content": content}]}
    request = {"responses_create_params": {"input": "Hello"}, "least": 1, "response": response}
    return {"name": name, "kind": "full_reward", "request": request, "expected_reward": reward, "oracle": reward == 1}


def bare(packed: Packed, name: str, manifest: dict[str, Any], platform: str = "linux/amd64") -> str:
    """An image with one empty file in it, and a label."""
    image, archive = f"{packed.registry}/team/{name}:1", packed.user / "bare.tar"
    with tarfile.open(archive, mode="w") as file:
        file.addfile(tarfile.TarInfo("nothing"))
    label = ("--change", f"LABEL {labels.PACK}={json.dumps(json.dumps(manifest))}") if manifest else ()
    run_program(("docker", "import", "--platform", platform, *label, str(archive), image))
    return image
