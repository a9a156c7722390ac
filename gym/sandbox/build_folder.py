"""What a server's sandboxes are made from, where no image has it: a folder of the server's own with a Dockerfile."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gym.errors import UserError
from gym.wire.sandbox import Build

DOCKERFILE: Final = "Dockerfile"


def read_build(folder: Path) -> Build:
    """The Dockerfile and the files beside it, as a request for a sandbox carries them."""
    own = folder / DOCKERFILE
    if not own.is_file():
        raise UserError(f"{folder} has no {DOCKERFILE}", "name a folder that has one, relative to the server's own")
    beside = sorted(path for path in folder.rglob("*") if path.is_file() and path != own)
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in beside}
    return Build(dockerfile=own.read_text("utf-8"), files=files)
