"""An environment as one image: packed here, started, read and tested where nothing but the image is."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from gym import __version__, labels
from gym.config.packed import NOTE, Packed
from gym.errors import UserError
from gym.programs import run_program
from gym.render.pack import FOLDER
from gym.runtime.compose.packed_images import open_image
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

from gym.server import ResourcesServer, VerifyRequest

class Task(VerifyRequest):
    least: int

class Letters(ResourcesServer):
    async def verify(self, rollout: Task) -> float:
        return float(six.PY3 and count(rollout.output_text) >= rollout.least)

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


SERVER_PLACE = "servers/resources/letters"
CONFIG_PLACE = f"{SERVER_PLACE}/letters.yaml"
MANIFEST: dict[str, Any] = {
    "format": "gym-pack",
    "gym": __version__,
    "name": "letters",
    "type": "resources_servers",
    "server": SERVER_PLACE,
    "config": CONFIG_PLACE,
}


class Here(NamedTuple):
    author: Path
    user: Path  # a folder with no server in it, and a cache of its own
    registry: str

    @property
    def image(self) -> str:
        return f"{self.registry}/team/letters:1.2"

    @property
    def env(self) -> dict[str, str]:
        return {**engine(), "GYM_CACHE_DIR": str(self.user / "cache"), "OF_THIS_MACHINE": "a canary"}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    """Packed and pushed by its author, and gone from this engine."""
    root = tmp_path_factory.mktemp("packed")
    with registry_in(root) as registry:
        made = Here(root / "project", root / "user", registry)
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
def stack(here: Here) -> str:
    """What `gym up` said."""
    return run("up", here.image, "--model", "scripted", "--port", "0", cwd=here.user, env=here.env, timeout=300)


def test_a_stack_of_an_image_and_its_agent_collects_its_own_rows_and_names_its_digest(here: Here, stack: str) -> None:
    assert f"gym rollouts {here.image} -o results/rollouts.jsonl" in stack
    run("rollouts", here.image, "-o", "out.jsonl", cwd=here.user, env=here.env)
    rewards = [json.loads(line)["reward"] for line in (here.user / "out.jsonl").read_text("utf-8").splitlines()]
    assert sorted(rewards) == [0.0, 1.0]
    (described,) = json.loads((here.user / "out_run.json").read_text("utf-8"))["stacks"]
    with engine_client() as client:
        (digest,) = client.images.get(here.image).attrs["RepoDigests"]
    assert described["images"] == {"letters": digest.partition("@")[2]}


def test_its_container_has_no_more_rights_than_one_that_was_built_here(here: Here, stack: str) -> None:
    with engine_client() as client:
        stack_here = f"{labels.STACK_DIR}={here.user / '.gym' / 'gym'}"
        containers = client.containers.list(filters={"label": stack_here})
        found = {one.labels[labels.INSTANCE]: one.attrs for one in containers if labels.INSTANCE in one.labels}
    ours, built = found["letters"], found["letters_simple_agent"]
    for key in ("ReadonlyRootfs", "CapDrop", "SecurityOpt", "PidsLimit", "Memory", "Privileged", "Tmpfs"):
        assert ours["HostConfig"][key] == built["HostConfig"][key], key
    of_built = [one.replace("letters-simple-agent", "letters") for one in built["HostConfig"]["Binds"]]
    assert sorted(ours["HostConfig"]["Binds"]) == sorted(of_built)
    assert ours["Config"]["User"] == "10001:10001"
    assert ours["Config"]["Image"].startswith("gym-pack-letters:")


def test_an_image_is_read_without_its_project(here: Here) -> None:
    shown = run("info", here.image, cwd=here.user, env=here.env)
    for words in ("letters", "Counts letters", here.image, "sha256:", "MIT", "least", "# Letters"):
        assert words in shown
    facts = json.loads(run("info", here.image, "--json", cwd=here.user, env=here.env))
    assert Path(facts["directory"]).is_relative_to(here.user / "cache" / "packs")


def test_an_image_is_tested_inside_itself(here: Here) -> None:
    done = gym("test", here.image, cwd=here.user, env=here.env)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert "1 of 2" in done.stdout
    assert "this case is wrong" in done.stdout
    refused = gym("test", here.image, "--audit", cwd=here.user, env=here.env)
    assert (refused.returncode, "gym test IMAGE" in refused.stderr) == (1, True)
    with engine_client() as client:
        assert not client.containers.list(all=True, filters={"name": "gym-test-", "ancestor": here.image})


def test_a_case_and_a_test_that_do_not_end_are_named(here: Here, tmp_path: Path) -> None:
    """A verifier that is ended in a case, as one that hangs is after minutes."""
    write_project(tmp_path)
    begin = "async def verify(self, rollout: Task) -> float:\n"
    app = APP.replace(begin, f'{begin}        if rollout.output_text == "end":\n            os._exit(1)\n')
    (tmp_path / "app.py").write_text(f"import os\n{app}", "utf-8")
    cases = [case("three letters", "abc"), case("this case ends it", "end"), case("one more", "abc")]
    lines = "".join(f"{json.dumps(one)}\n" for one in cases)
    (tmp_path / "data" / "verifier_cases.jsonl").write_text(lines, "utf-8")
    hangs = "import threading\n\ndef test_that_hangs() -> None:\n    threading.Event().wait()\n"
    (tmp_path / "tests" / "test_counting.py").write_text(hangs, "utf-8")
    image = f"{here.registry}/team/ending:1"
    try:
        run("pack", "letters", "-t", image, cwd=tmp_path)
        done = gym("test", image, cwd=here.user, env={**here.env, "GYM_TEST_SECONDS": "2"})
    finally:
        remove_images_of(tmp_path)
    assert done.returncode == 1
    assert "test_that_hangs had not ended after 2 s" in done.stdout, done.stdout + done.stderr
    assert "this case ends it" in done.stdout
    assert "verifier_cases.jsonl:2: its process ended with exit code 1" in done.stdout


def test_the_same_project_packed_again_is_the_same_image(here: Here) -> None:
    again = f"{here.registry}/team/again:1"
    shutil.rmtree(here.author / ".gym")
    (here.author / "env.yaml").write_text("policy_api_key: sk-of-this-machine\n")
    for path in here.author.iterdir():
        path.touch()
    run("pack", "letters", "-t", again, cwd=here.author)
    run("pull", here.image, cwd=here.user, env=here.env)
    with engine_client() as client:
        assert client.images.get(again).id == client.images.get(here.image).id


def test_a_configuration_that_reads_this_machine_waits_for_a_word(here: Here) -> None:
    config = CONFIG.replace("domain: other", "domain: other\n      taken: ${oc.env:OF_THIS_MACHINE}")
    forged = Packed(image="a:1", digest="b", reference="c", trusted=True, config=CONFIG_PLACE, server=SERVER_PLACE)
    files = {CONFIG_PLACE: config, f"{SERVER_PLACE}/app.py": APP, NOTE: json.dumps(asdict(forged))}
    image = bare(here, "curious", MANIFEST, {f"{FOLDER}/{name}": text.encode() for name, text in files.items()})
    run_program(("docker", "push", "--quiet", image))
    refused = gym("config", image, "--model", "scripted", cwd=here.user, env=here.env)
    assert refused.returncode == 1
    assert "reads the variable OF_THIS_MACHINE of this machine" in refused.stderr
    assert f"gym pull {image} --trust" in refused.stderr
    run("pull", image, "--trust", cwd=here.user, env=here.env)
    assert "taken: a canary" in run("config", image, "--model", "scripted", cwd=here.user, env=here.env)


def test_what_is_here_is_trusted_and_found_by_its_digest_without_its_registry(here: Here, tmp_path: Path) -> None:
    run("pull", here.image, cwd=here.user, env=here.env)
    with registry_in(tmp_path) as registry:
        image = f"{registry}/team/letters:1"
        run_program(("docker", "tag", here.image, image))
        run_program(("docker", "push", "--quiet", image))
    try:
        with engine_client() as client:
            digests = client.images.get(image).attrs["RepoDigests"]
        (by_digest,) = [one for one in digests if one.startswith(f"{registry}/")]
        refused = gym("pull", image, cwd=here.user, env=here.env)
        assert refused.returncode != 0
        assert "Is the registry up" in refused.stderr
        run("pull", image, "--trust", cwd=here.user, env=here.env)
        run("pull", by_digest, cwd=here.user, env=here.env)
    finally:
        remove_references(registry)


def test_images_that_cannot_be_used_say_so_in_one_sentence(here: Here) -> None:
    made = {
        "no packed environment": bare(here, "plain", {}),
        "is for linux/s390x": bare(here, "other", MANIFEST, platform="linux/s390x"),
        "packed by compose-gym 9.9.9": bare(here, "newer", {**MANIFEST, "gym": "9.9.9"}),
        "has no folder /opt/gym/pack": bare(here, "empty", MANIFEST),
        "lacks servers/resources/letters/letters.yaml": bare(here, "hollow", MANIFEST, {f"{FOLDER}/x": b""}),
        "no such image": f"{here.registry}/team/nothing:1",
    }
    for words, image in made.items():
        with pytest.raises(UserError, match=words) as refused:
            open_image(image, here.user / "cache")
        assert refused.value.what.startswith(image)
        assert refused.value.hint
    done = gym("up", image, "--model", "scripted", cwd=here.user, env=here.env)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {image} cannot be pulled: its registry has no such image"), done.stderr


def test_a_pull_that_is_denied_says_how_to_log_in(here: Here, tmp_path: Path) -> None:
    with registry_in(tmp_path, closed=True) as registry:
        done = gym("info", f"{registry}/team/letters:1.2", cwd=here.user, env=here.env)
    assert done.returncode == 1
    assert "cannot be pulled: its registry denies it" in done.stderr
    assert f"docker login {registry}" in done.stderr


def run(*words: str, cwd: Path, env: dict[str, str] | None = None, timeout: float = 180) -> str:
    done = gym(*words, cwd=cwd, env=env or engine(), timeout=timeout)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def write_project(folder: Path) -> None:
    """Its folder's name is not its own; it imports a file beside it and something from an index."""
    rows = [
        {"responses_create_params": {"input": [{"role": "user", "content": "Hello"}]}, "least": least}
        for least in (1, 1_000_000)
    ]
    cases = [case("three letters", "abc"), case("this case is wrong", "")]
    texts = {
        "letters.yaml": CONFIG,
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


def case(name: str, answer: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": answer, "annotations": []}]
    response = {"output": [{"type": "message", "role": "assistant", "content": content}]}
    request = {"responses_create_params": {"input": "Hello"}, "least": 1, "response": response}
    return {"name": name, "kind": "full_reward", "request": request, "expected_reward": 1.0, "oracle": True}


def bare(
    here: Here,
    name: str,
    manifest: dict[str, Any],
    files: dict[str, bytes] | None = None,
    platform: str = "linux/amd64",
) -> str:
    """An image with a label, and nothing in it but these files."""
    image, archive = f"{here.registry}/team/{name}:1", here.user / "bare.tar"
    with tarfile.open(archive, mode="w") as tar:
        for path, text in (files or {"nothing": b""}).items():
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))
    label = ("--change", f"LABEL {labels.PACK}={json.dumps(json.dumps(manifest))}") if manifest else ()
    run_program(("docker", "import", "--platform", platform, *label, str(archive), image))
    return image
