"""What an image is made of is named by its digest, and not by a name that may be given to something else."""

from __future__ import annotations

import re
from pathlib import Path

import docker
import pytest

from gym.config.model import SidecarSpec
from gym.errors import UserError
from gym.plan.model import Plan, Sidecar
from gym.render.bake import BuildTarget, StackImages
from gym.runtime.compose.pins import LABEL_LOCKED, Pins, shared_versions
from gym.runtime.compose.stack_lock import MISSING, Lock, Locked, base_digests, check_lock, fetch_locked, pins_of
from tests.support.compose_plans import plan_of, service, write_folder, write_images

PYTHON = "python:3.13-slim"
ROOT = Path(__file__).parents[3]
PINNED = (*sorted((ROOT / "requirements").glob("*.txt")), ROOT / "servers/resources/swe/requirements.txt")


@pytest.mark.parametrize("path", PINNED, ids=lambda path: path.name)
def test_every_package_of_a_requirement_file_has_a_hash(path: Path) -> None:
    entries = re.split(r"(?m)^(?=[A-Za-z0-9])", path.read_text())[1:]
    assert entries
    assert all("==" in one and "--hash=sha256:" in one for one in entries)


def test_the_base_image_installs_nothing_without_a_hash() -> None:
    text = (ROOT / "Dockerfile.base").read_text()
    installs = [line for line in text.splitlines() if "pip install" in line]
    assert "--require-hashes -r /opt/gym/uv.txt" in text
    assert "--require-hashes -r /opt/gym/sdk.txt" in text
    assert not [line for line in installs if re.search(r'"[a-z]+[<>=]', line)]


def test_the_versions_of_an_image_count_before_those_that_servers_share() -> None:
    every = shared_versions(())
    assert any(line.startswith("mcp==2.") for line in every)
    assert all(re.fullmatch(r"[a-z0-9.-]+==[^ ]+( ; .+)?", line) for line in every), every
    left = shared_versions(("mcp==1.26.0", "Typing_Extensions==4.0.0"))
    assert {line.partition("==")[0] for line in every} - {line.partition("==")[0] for line in left} == {
        "mcp",
        "typing-extensions",
    }


class Engine:
    """As much of a client as a lock asks."""

    def __init__(self, *images: dict[str, object]) -> None:
        self.api = self
        self._images = list(images)

    def images(self) -> list[dict[str, object]]:
        return self._images


def engine(digest: str) -> docker.DockerClient:
    tags, digests = ["traefik:v3.7"], [f"traefik@sha256:{digest}"]
    return Engine({"Id": "sha256:other", "RepoTags": tags, "RepoDigests": digests})  # type: ignore[return-value]


def test_a_base_image_that_became_another_behind_its_tag_is_reported(tmp_path: Path) -> None:
    locked = Lock(instances={}, datasets={}, bases=base_digests(engine("1" * 64)))
    assert locked.bases == {"python:3.13-slim": MISSING, "traefik:v3.7": f"sha256:{'1' * 64}"}
    plan = Plan(stack="gym", services=())
    images = write_images(plan, tmp_path)
    check_lock(locked, engine("1" * 64), plan, images, (), pinned=False)
    with pytest.raises(UserError, match=r"traefik:v3\.7: is sha256:222222222222 here, sha256:111111111111 was locked"):
        check_lock(locked, engine("2" * 64), plan, images, (), pinned=False)


def test_a_router_that_is_gone_is_had_by_its_digest_and_never_by_its_tag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = f"sha256:{'1' * 64}"
    said = tmp_path / "said"
    (tmp_path / "docker").write_text(f'#!/bin/sh\necho "$@" >> {said}\nexit 1\n')
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    locked = Lock(instances={}, datasets={}, bases={"traefik:v3.7": digest})
    nothing: docker.DockerClient = Engine()  # type: ignore[assignment]
    fetch_locked(locked, nothing, "unix:///nowhere")
    assert said.read_text() == f"pull --quiet traefik@{digest}\n"
    plan = Plan(stack="gym", services=())
    with pytest.raises(UserError, match=r"traefik:v3\.7: is not on this engine and cannot be had by its digest"):
        check_lock(locked, nothing, plan, write_images(plan, tmp_path), (), pinned=False)


def test_a_service_whose_image_became_another_or_that_was_not_there_is_reported(tmp_path: Path) -> None:
    beside = Sidecar(
        instance="shop",
        instance_slug="shop",
        slug="shop-db",
        spec=SidecarSpec(name="db", port=5432, image="hub/pg"),
        parts={},
        digest="",
    )
    plan = Plan(stack="gym", services=(), sidecars=(beside,))
    images = write_images(plan, tmp_path)
    same = Engine({"Id": "sha256:1", "RepoTags": ["hub/pg:latest"], "RepoDigests": ["hub/pg@sha256:2"]})
    other = Engine({"Id": "sha256:3", "RepoTags": ["hub/pg:latest"], "RepoDigests": []})
    locked = Lock(instances={}, datasets={}, services={"shop.db": Locked(image="hub/pg", id="sha256:1")})
    check_lock(locked, same, plan, images, (), pinned=False)  # type: ignore[arg-type]
    wrong = {
        "shop.db: the image hub/pg is sha256:3, sha256:1 was locked": (locked, other),
        "shop.db: the image hub/pg is not on this engine": (locked, Engine()),
        "shop.db: not in the lock": (Lock(instances={}, datasets={}), same),
    }
    for words, (lock, engine) in wrong.items():
        with pytest.raises(UserError, match=words):
            check_lock(lock, engine, plan, images, (), pinned=False)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("image", "reference"),
    [
        ({"Id": "sha256:a", "RepoTags": [PYTHON], "RepoDigests": ["python@sha256:1"]}, "python@sha256:1"),
        ({"Id": "sha256:a", "RepoTags": [], "RepoDigests": ["mirror/python@sha256:1"]}, "python@sha256:1"),
        ({"Id": "sha256:1", "RepoTags": [PYTHON], "RepoDigests": []}, PYTHON),  # loaded: no registry named it
    ],
)
def test_a_build_from_a_lock_begins_from_the_image_that_is_locked(image: dict[str, object], reference: str) -> None:
    lock = Lock(instances={}, datasets={}, bases={PYTHON: "sha256:1"})
    pins = pins_of(lock, Engine(image), "", fetch=True)  # type: ignore[arg-type]
    assert pins is not None
    assert pins.python == reference


def test_a_python_image_that_is_another_and_cannot_be_pulled_by_its_digest_pins_nothing() -> None:
    lock = Lock(instances={}, datasets={}, bases={PYTHON: f"sha256:{'1' * 64}"})
    found = Engine({"Id": "sha256:2", "RepoTags": [PYTHON], "RepoDigests": []})
    nowhere = "tcp://127.0.0.1:9"
    assert pins_of(lock, found, nowhere, fetch=True) is None  # type: ignore[arg-type]
    images = StackImages("", {}, BuildTarget(name="base", context="", dockerfile="", tag=""), ())
    with pytest.raises(UserError, match=r"python:3\.13-slim: is sha256:2 here, sha256:111111111111 was locked"):
        check_lock(lock, found, Plan(stack="gym", services=()), images, (), pinned=False)  # type: ignore[arg-type]


def test_a_server_is_built_by_hashes_under_the_name_that_it_has_without_a_lock(tmp_path: Path) -> None:
    folder = write_folder(tmp_path)
    (folder / "requirements.txt").write_text("six\n")
    plan = plan_of(service("mcqa", directory=folder))
    plain = write_images(plan, tmp_path)
    pins = Pins("python@sha256:1", "sha256:1", {"mcqa": ("six==1.0 --hash=sha256:0",)})
    pinned = write_images(plan, tmp_path, pins)
    assert (pinned.base, pinned.by_instance) == (plain.base, plain.by_instance)
    assert pinned.base_target.args == {"PYTHON_IMAGE": "python@sha256:1"}
    target = pinned.targets[0]
    assert "--require-hashes --no-deps" in Path(target.dockerfile).read_text()
    assert Path(target.contexts["locked"], "requirements.txt").read_text() == "six==1.0 --hash=sha256:0\n"
    unhashed = write_images(plan, tmp_path, Pins("python", "sha256:1", {}))
    assert LABEL_LOCKED not in unhashed.targets[0].labels  # so it is not taken for what was locked
