"""Files that another process reads while we write: whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, text: str, *, mode: int = 0o600, durable: bool = False) -> bool:
    """Write beside, then rename over. False, and nothing touched, when the file already holds this text.

    `durable` waits for the disk: for what must survive a power cut, not for what is rendered again anyway.
    """
    data = text.encode()
    if _holds(path, data, mode):
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    # A dot in front: the file provider of the router reads every *.yml in its folder, this one must never be seen.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(file.fileno(), mode)
            if durable:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return True


def _holds(path: Path, data: bytes, mode: int) -> bool:
    try:
        return path.read_bytes() == data and path.stat().st_mode & 0o777 == mode
    except OSError:
        return False
