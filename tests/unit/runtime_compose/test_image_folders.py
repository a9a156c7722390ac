"""Which folders of unpacked images stay in the cache."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from pathlib import Path

import docker

from gym.config.packed import NOTE, Packed
from gym.runtime.compose.image_folders import DAY, UNUSED_DAYS, image_folders, remove_unused_folders


class Containers:
    """As much of a client as is asked: containers of these images."""

    def __init__(self, *images: str) -> None:
        self.api = self
        self._images = images

    def containers(self, *, all: bool) -> list[dict[str, str]]:
        assert all  # a stopped one is used too
        return [{"ImageID": f"sha256:{one}{'0' * 32}"} for one in self._images]


def engine(*images: str) -> docker.DockerClient:
    return Containers(*images)  # type: ignore[return-value]


def unpacked(cache: Path, letter: str, *, days: float) -> str:
    name = letter * 32
    root = cache / "packs" / name
    root.mkdir(parents=True)
    (root / "app.py").write_text("x" * 1000)
    packed = Packed(image=f"gym-pack-a:{name}", digest="", reference=f"hub/{letter}:1", config="a", server="b")
    (root / NOTE).write_text(json.dumps(asdict(packed)))
    set_age(root / NOTE, days)
    return name


def set_age(path: Path, days: float) -> None:
    then = time.time() - days * DAY
    os.utime(path, (then, then))


def test_one_that_no_container_uses_and_no_command_has_named_for_a_month_goes(tmp_path: Path) -> None:
    new, running, old = (
        unpacked(tmp_path, letter, days=days)
        for letter, days in (("a", UNUSED_DAYS - 1), ("b", UNUSED_DAYS + 1), ("c", UNUSED_DAYS + 2))
    )
    for name, days in ((".unpacking-dead", 2), (".unpacking-now", 0)):
        (tmp_path / "packs" / name).mkdir()
        set_age(tmp_path / "packs" / name, days)
    found = image_folders(tmp_path, engine(running))
    assert [(one.path.name, one.reference, one.in_use) for one in found] == [
        (new, "hub/a:1", False),
        (running, "hub/b:1", True),
        (old, "hub/c:1", False),
    ]
    assert all(one.bytes > 1000 for one in found)
    removed = remove_unused_folders(tmp_path, engine(running))
    assert {one.name for one in removed} == {old, ".unpacking-dead"}
    assert {one.name for one in (tmp_path / "packs").iterdir()} == {new, running, ".unpacking-now"}


def test_a_cache_without_folders_has_none(tmp_path: Path) -> None:
    assert image_folders(tmp_path, engine()) == ()
    assert remove_unused_folders(tmp_path, engine()) == ()
