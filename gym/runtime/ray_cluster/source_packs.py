"""What nodes need of this machine, as packs named by their content: servers' folders, and gym itself."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from gym.errors import UserError
from gym.files import asset_dir
from gym.plan.model import Service
from gym.runtime.compose.image_sources import server_files
from gym.runtime.wheel import sdk_wheel

MAX_BYTES = 100 * 1024 * 1024  # the store is the memory of Ray's head node
ASSETS = ("requirements", "compose")


class SourcePack(NamedTuple):
    key: str
    data: bytes


def pack_service(service: Service) -> SourcePack:
    """Of the files that an image of it would be made of."""
    folder = service.directory
    if folder is None or service.container.image or service.container.build:
        raise UserError(
            f"{service.name} is an image, and an actor of Ray runs a server's folder.",
            "Use a container engine: gym up … --runtime compose",
        )
    if not (folder / service.entrypoint).is_file():
        raise UserError(
            f"{service.name}: no {service.entrypoint} in {folder}.",
            "Write it, or name another file as `entrypoint` in the instance's configuration.",
        )
    top = f"{service.type}/{folder.name}"
    found = _pack((f"{top}/{path.relative_to(folder).as_posix()}", path) for path in server_files(folder))
    if len(found.data) > MAX_BYTES:
        raise UserError(
            f"{service.name}: {folder} is {len(found.data) / 2**20:.0f} MB packed, and Ray's store takes"
            f" {MAX_BYTES / 2**20:.0f}.",
            "Keep data out of a server's folder: rows are read where `gym rollouts` is typed.",
        )
    return found


def pack_gym(cache: Path) -> SourcePack:
    """The wheel of this very gym, with the files beside it that servers' environments are made with."""
    wheel = sdk_wheel(cache / "wheels")
    files = [(f"wheel/{wheel.name}", wheel)]
    for name in ASSETS:
        top = asset_dir(name)
        every = (path for path in sorted(top.rglob("*")) if path.is_file())
        files += [(f"assets/{name}/{path.relative_to(top).as_posix()}", path) for path in every]
    return _pack(files)


def _pack(files: Iterable[tuple[str, Path]]) -> SourcePack:
    """The same files give the same bytes."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name, path in files:
            content = path.read_bytes()
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755 if path.stat().st_mode & 0o100 else 0o644
            archive.addfile(member, io.BytesIO(content))
    data = gzip.compress(plain.getvalue(), mtime=0)
    return SourcePack(hashlib.sha256(data).hexdigest(), data)
