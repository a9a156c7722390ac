"""Files that another process reads while we write, whole or not at all; and where the files lie that came with gym."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, TypeVar

import orjson

from gym.errors import InfraError

if TYPE_CHECKING:
    from pydantic import BaseModel

M = TypeVar("M", bound="BaseModel")
SHARED: Final = 0o644  # read by another user inside a container; the stack's home itself is private
_PACKAGE = Path(__file__).resolve().parent


def write_atomically(path: Path, text: str, *, mode: int = 0o600, durable: bool = False) -> bool:
    """Write beside, then rename over. False, and nothing touched, when the file already holds this text.

    `durable` waits for the disk: for what must survive a power cut, not for what is rendered again anyway.
    """
    data = text.encode()
    if _holds(path, data, mode):
        return False
    with open_atomically(path, mode=mode, durable=durable) as file:
        file.write(data)
    return True


@contextmanager
def open_atomically(path: Path, *, mode: int = 0o600, durable: bool = False) -> Iterator[BinaryIO]:
    """What is written takes the place of `path` when the block ends without an error; else `path` stays what it was."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A dot in front: the file provider of the router reads every *.yml in its folder, this one must never be seen.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fchmod(file.fileno(), mode)
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_document(kind: type[M], path: Path) -> M | None:
    """None where it was never written, or cannot be read."""
    try:
        return kind.model_validate_json(path.read_bytes())
    except (OSError, ValueError):
        return None


def read_object(path: Path) -> dict[str, Any]:
    """Empty where there is none."""
    try:
        found = orjson.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def append_end(path: Path, text: bytes, max_bytes: int) -> None:
    """A file that has grown to twice `max_bytes` loses its beginning."""
    with path.open("ab") as file:
        file.write(text)
        size = file.tell()
    if size > 2 * max_bytes:
        with path.open("rb") as file:
            file.seek(size - max_bytes)
            end = file.read().partition(b"\n")[2]
        short = path.with_name(f".{path.name}.short")
        short.write_bytes(end)
        short.replace(path)


def write_at(descriptor: int, data: bytes, offset: int) -> None:
    """All of it, however little the kernel takes at once."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


def _holds(path: Path, data: bytes, mode: int) -> bool:
    try:
        return path.read_bytes() == data and path.stat().st_mode & 0o777 == mode
    except OSError:
        return False


def asset_dir(name: str) -> Path:
    """`templates`, `servers`, `compose`, `requirements`: inside the installed wheel, or beside the package."""
    for candidate in (_PACKAGE / "_assets" / name, _PACKAGE.parent / name):
        if candidate.exists():
            return candidate
    raise InfraError(
        f"`{name}` is not where the package `gym` is installed ({_PACKAGE}).",
        "Install it again: `pip install --force-reinstall 'compose-gym[cli]'`.",
    )


def own_root() -> Path:
    """The folder that holds our own `servers`."""
    inside = _PACKAGE / "_assets"
    return inside if inside.is_dir() else _PACKAGE.parent
