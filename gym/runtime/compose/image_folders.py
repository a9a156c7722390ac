"""Folders of unpacked images in the cache: how much they take, when they were used last, and which are of no more use.

One that is removed is unpacked again when its image is named, and what its configuration asks for is asked about again.
"""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from gym.config.packed import NOTE, read_packed

if TYPE_CHECKING:
    import docker

PACKS: Final = "packs"
UNPACKING: Final = ".unpacking-"  # a command that was killed leaves one
UNUSED_DAYS: Final = 30.0
UNFINISHED_DAYS: Final = 1.0
DAY: Final = 86400.0


class ImageFolder(NamedTuple):
    path: Path
    reference: str  # the image, as it was asked for last
    bytes: int
    last_used: float  # seconds since 1970
    in_use: bool  # a container of it is on this engine


def image_folders(cache: Path, client: docker.DockerClient) -> tuple[ImageFolder, ...]:
    """The one that was used last comes first."""
    used = {short_id(str(one["ImageID"])) for one in client.api.containers(all=True)}
    found = []
    for root in (cache / PACKS).resolve().glob("*"):
        packed = None if root.name.startswith(".") else read_packed(root)
        if packed is not None:
            last_used = (root / NOTE).stat().st_mtime
            found.append(ImageFolder(root, packed.reference, _size(root), last_used, root.name in used))
    return tuple(sorted(found, key=lambda one: -one.last_used))


def remove_unused_folders(cache: Path, client: docker.DockerClient) -> tuple[Path, ...]:
    """Those that no container runs from and no command has named for a month; and what was never finished."""
    now = time.time()
    old = [
        one.path for one in image_folders(cache, client) if not one.in_use and now - one.last_used > UNUSED_DAYS * DAY
    ]
    for path in (cache / PACKS).resolve().glob(f"{UNPACKING}*"):
        with suppress(FileNotFoundError):
            if now - path.stat().st_mtime > UNFINISHED_DAYS * DAY:
                old.append(path)
    for path in old:
        (path / NOTE).unlink(missing_ok=True)  # first: without it a folder is none, also one of which half is left
        shutil.rmtree(path, ignore_errors=True)
    return tuple(old)


def short_id(id: str) -> str:
    """The name of an image's folder."""
    return id.rpartition(":")[2][:32]


def _size(root: Path) -> int:
    return sum(path.lstat().st_size for path in root.rglob("*") if path.is_file())
