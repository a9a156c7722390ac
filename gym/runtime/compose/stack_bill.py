"""`gym lock --sbom`: asks each image of a stack what is installed in it, and writes a CycloneDX file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import orjson

from gym.engine import connect, docker_environ, require_engine
from gym.errors import ProgramFailed
from gym.files import asset_dir, write_atomically
from gym.programs import run_program
from gym.render.bill_of_materials import (
    OURS,
    Hashes,
    ImageContent,
    instances_by_image,
    make_bill,
    normal_name,
    read_hashes,
)
from gym.render.package_licence import PackageFacts
from gym.runtime.compose.images import BASE
from gym.runtime.compose.known_images import image_ids, registry_digests, with_tag
from gym.runtime.compose.layout import Layout, State
from gym.runtime.compose.stack_lock import Lock

if TYPE_CHECKING:
    import docker

LOCKS: Final = ("sdk.txt", "server.txt", "uv.txt")
BASE_USERS: Final = ("console", "sandbox broker", "base of all servers")
# Every environment of the image, not the one of its server alone: what lies there can be called.
LIST_PACKAGES: Final = """
import glob, json, sys
from importlib import metadata
found = [glob.glob(root + "/lib/python3*/site-packages") for root in ("/opt/*", "/usr/local")]
places = [*sys.path, *found[0], *found[1]]
print(json.dumps([
    [one.metadata["Name"], one.version, one.metadata.get("License-Expression") or "",
     one.metadata.get_all("Classifier") or [], one.metadata.get("License") or ""]
    for one in metadata.distributions(path=places) if one.metadata["Name"]
]))
"""


def write_bill(home: Path, target: Path, lock: Lock, cache: Path) -> int:
    """Of the stack in `home`, as `lock` has just found it; how many components are in it."""
    engine, layout = require_engine(), Layout(home.resolve())
    state, plan = layout.read_state(), layout.read_plan()
    stack = plan.stack if plan else state.project
    with connect(engine.host) as client:
        images = list(_images(client, engine.host, state))
    bill = make_bill(stack, images, _hashes(lock, state, cache), lock.datasets)
    write_atomically(target, orjson.dumps(bill, option=orjson.OPT_INDENT_2).decode() + "\n", mode=0o644)
    return len(bill["components"])


def _images(client: docker.DockerClient, host: str, state: State) -> Iterator[ImageContent]:
    ids, digests = image_ids(client), registry_digests(client)
    for name, used_by in (
        (state.base_image, BASE_USERS),
        (state.router_image, ("router",)),
        *instances_by_image(state.images),
    ):
        tag = with_tag(name)
        packages = installed_packages(name, host) if tag in ids else ()
        extra = tuple(_uv()) if name == state.base_image else ()
        yield ImageContent(name, ids.get(tag, ""), digests.get(tag, ""), used_by, (*packages, *extra))


def installed_packages(image: str, host: str) -> tuple[PackageFacts, ...]:
    """None of an image that has no Python."""
    argv = ("docker", "run", "--rm", "--network", "none", "--entrypoint", "python3", image, "-c", LIST_PACKAGES)
    try:
        found = orjson.loads(run_program(argv, env=docker_environ(host)))
    except (ProgramFailed, orjson.JSONDecodeError):
        return ()
    facts = (PackageFacts(name, version, said, tuple(kinds), text) for name, version, said, kinds, text in found)
    return tuple(sorted(set(facts)))


def _uv() -> Iterator[PackageFacts]:
    """A program on its own in the base image, without what pip notes of it."""
    for name, version in read_hashes(_lines("uv.txt")):
        yield PackageFacts(name, version, "MIT OR Apache-2.0")


def _hashes(lock: Lock, state: State, cache: Path) -> Hashes:
    found = {key: value for name in LOCKS for key, value in read_hashes(_lines(name)).items()}
    for one in lock.instances.values():
        found |= read_hashes(one.hashed)
    return {**found, **_own_wheel(state, cache)}


def _own_wheel(state: State, cache: Path) -> dict[tuple[str, str], tuple[str, ...]]:
    """The wheel that the base was built with, where its build context is still here."""
    folder = cache / "base" / state.base_image.removeprefix(f"{BASE}:") / "dist"
    return {
        (normal_name(OURS), path.name.split("-")[1]): (hashlib.sha256(path.read_bytes()).hexdigest(),)
        for path in sorted(folder.glob("*.whl"))
    }


def _lines(name: str) -> list[str]:
    return (asset_dir("requirements") / name).read_text("utf-8").splitlines()
