"""Frames between a sandbox and its owner: four bytes of length, then JSON."""

from __future__ import annotations

import json
import os
import struct
from typing import Any


def read_exactly(fd: int, size: int) -> bytes:
    parts = []
    while size:
        part = os.read(fd, min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def read_frame(fd: int) -> bytes:
    return read_exactly(fd, struct.unpack("!I", read_exactly(fd, 4))[0])


def write_frame(fd: int, message: dict[str, Any]) -> None:
    data = json.dumps(message).encode()
    view = memoryview(struct.pack("!I", len(data)) + data)
    while view:
        view = view[os.write(fd, view) :]
