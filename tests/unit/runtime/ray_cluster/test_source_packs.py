"""A server's folder as it reaches a node: by its content, unpacked once."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from gym.errors import UserError
from gym.runtime.ray_cluster import source_packs
from gym.runtime.ray_cluster.node_files import NotMade, unpack
from gym.runtime.ray_cluster.source_packs import pack_service
from tests.support.stacks import make_service


def test_the_same_files_have_the_same_key_wherever_and_whenever_they_lie(tmp_path: Path) -> None:
    here, there = make_service(tmp_path / "here", "mcqa"), make_service(tmp_path / "there", "mcqa")
    assert there.directory is not None
    os.utime(there.directory / "app.py", (0, 0))
    assert pack_service(here).key == pack_service(there).key
    (there.directory / "prompt.txt").write_text("Answer.")
    assert pack_service(here).key != pack_service(there).key


def test_a_node_unpacks_it_once_below_the_names_that_it_has(tmp_path: Path) -> None:
    service = make_service(tmp_path, "mcqa")
    assert service.directory is not None
    pack, asked = pack_service(service), []

    def fetch(key: str) -> bytes:
        asked.append(key)
        return pack.data

    folders = {unpack(tmp_path / "cache", pack.key, fetch) for _ in range(2)}
    assert asked == [pack.key]
    found = folders.pop() / "resources_servers" / "mcqa" / "app.py"
    assert found.read_text() == (service.directory / "app.py").read_text()


def test_one_that_was_half_unpacked_is_unpacked_again(tmp_path: Path) -> None:
    pack = pack_service(make_service(tmp_path, "mcqa"))

    def lost(key: str) -> bytes:
        raise ConnectionError(key)

    with pytest.raises(ConnectionError):
        unpack(tmp_path / "cache", pack.key, lost)
    assert (unpack(tmp_path / "cache", pack.key, lambda _: pack.data) / "resources_servers").is_dir()


def test_a_folder_full_of_data_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_packs, "MAX_BYTES", 1000)
    service = make_service(tmp_path, "mcqa")
    assert service.directory is not None
    (service.directory / "big.bin").write_bytes(os.urandom(2000))
    with pytest.raises(UserError, match="Ray's store takes"):
        pack_service(service)


def test_an_image_is_not_an_actor(tmp_path: Path) -> None:
    service = make_service(tmp_path, "mcqa")
    image = service.model_copy(update={"container": service.container.model_copy(update={"image": "mcqa:1"})})
    with pytest.raises(UserError, match="--runtime compose"):
        pack_service(image)


@pytest.mark.parametrize("kind", ["another pack", "a path", "a link"])
def test_a_node_unpacks_nothing_else_and_nothing_outside_of_its_folder(tmp_path: Path, kind: str) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        entry = tarfile.TarInfo("../../outside" if kind == "a path" else "inside")
        if kind == "a link":
            entry.type, entry.linkname = tarfile.SYMTYPE, "../../../outside"
        archive.addfile(entry)
    key = "0" * 64 if kind == "another pack" else hashlib.sha256(data.getvalue()).hexdigest()
    with pytest.raises((NotMade, tarfile.FilterError)):
        unpack(tmp_path / "a" / "cache", key, lambda _: data.getvalue())
    assert not list(tmp_path.rglob("outside"))
    assert not list(tmp_path.rglob(".complete"))
