"""Which images this provider may remove, and when each was last used. Kept in a file that is replaced atomically."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Final

import orjson

from gym.files import write_atomically

WRITE_EVERY: Final = 30.0


class ImageUse:
    """Image id -> when last used; `pulled` are those that only this provider brought here."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._used: dict[str, float] = {}
        self.pulled: set[str] = set()
        self._written = 0.0
        self._read()

    def use(self, image: str, *, pulled: bool = False) -> None:
        self._used[image] = time.time()
        if pulled:
            self.pulled.add(image)
        if pulled or time.monotonic() - self._written > WRITE_EVERY:
            self.write()

    def last_used(self, image: str) -> float:
        return self._used.get(image, 0.0)

    def forget(self, image: str) -> None:
        self._used.pop(image, None)
        self.pulled.discard(image)

    def write(self) -> None:
        self._written = time.monotonic()
        if self._path is None:
            return
        with contextlib.suppress(OSError):  # a folder that cannot be written costs an order, not a sandbox
            write_atomically(self._path, orjson.dumps({"used": self._used, "pulled": sorted(self.pulled)}).decode())

    def _read(self) -> None:
        try:
            tree = orjson.loads(self._path.read_bytes()) if self._path else {}
            self._used = {str(key): float(value) for key, value in tree.get("used", {}).items()}
            self.pulled = {str(one) for one in tree.get("pulled", ())}
        except (OSError, ValueError, TypeError, AttributeError):
            self._used, self.pulled = {}, set()  # a torn file costs an order, not an image
