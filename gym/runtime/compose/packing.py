"""Builds a packed environment: a server's image, and on it the folder that everything else is read from.

What goes into the folder carries no clock, so that the same server packed twice is one image.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from gym import labels
from gym.engine import require_engine
from gym.files import write_atomically
from gym.render.bake import BuildTarget
from gym.render.pack import STAGE, PackManifest, pack_labels, render_pack
from gym.render.server_dockerfile import IGNORED
from gym.runtime.compose.image_sources import files_below, is_ignored
from gym.runtime.compose.images import LABEL_ROLE, LABEL_SOURCE
from gym.runtime.compose.server_builds import bake_images

EPOCH: Final = 315_532_800  # 1980: what zip files and wheels can say
RUN: Final = "_run.json"  # of every collection: `X_run.json` beside `X.jsonl`
NEVER: Final = frozenset({"env.yaml", *(one[3:] for one in IGNORED if one.startswith("**/"))} - {"*.pyc"})


class PackContent(NamedTuple):
    """What is packed: by its place in the pack's folder."""

    manifest: PackManifest
    server: Path
    along: Mapping[str, Path]  # folders of other servers, as their images would be built from them
    files: Mapping[str, Path]  # rows and configurations that lie elsewhere
    description: str = ""
    licence: str = ""


def build_pack(content: PackContent, image: str, reference: str, folder: Path) -> None:
    """`image` is the server's own, built by now; `folder` is where Dockerfiles of the stack are written."""
    host = require_engine().host
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="pack-") as scratch:
        stage_pack(content, Path(scratch) / STAGE)
        dockerfile = Path(scratch) / "Dockerfile"
        write_atomically(dockerfile, render_pack(image))
        labelled = pack_labels(content.manifest, description=content.description, licence=content.licence)
        target = BuildTarget(
            name="pack",
            context=scratch,
            dockerfile=str(dockerfile),
            tag=reference,
            args={"SOURCE_DATE_EPOCH": str(EPOCH)},
            # The folder and the user of this machine mean nothing where it goes.
            labels={**labelled, LABEL_ROLE: "pack", LABEL_SOURCE: "", labels.OWNER: ""},
        )
        bake_images([target], host, folder, {})


def stage_pack(content: PackContent, target: Path) -> None:
    _copy(content.server, target / content.manifest.server, _is_left_out)
    for place, source in content.along.items():
        _copy(source, target / place, is_ignored)
    for place, file in content.files.items():
        if not (target / place).exists():
            (target / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target / place)
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
        os.utime(path, (EPOCH, EPOCH))


def _copy(source: Path, target: Path, leaves_out: Callable[[str], bool]) -> None:
    collected = tuple(path.name.removesuffix(RUN) for path in source.glob(f"*{RUN}"))
    for path in files_below(source, source, leaves_out):
        if path.parent == source and collected and _is_collected(path.name, collected):
            continue
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
        place.chmod(path.stat().st_mode & 0o755)


def _is_collected(name: str, collected: tuple[str, ...]) -> bool:
    """The files of a collection, which lies beside the code in a project of few files."""
    return any(name == f"{one}.jsonl" or name.startswith(f"{one}_") for one in collected)


def _is_left_out(name: str) -> bool:
    """Tests and whole data sets come along here; caches, and what only this machine has, do not."""
    last = name.rpartition("/")[2]
    return last in NEVER or last.endswith(".pyc")
