"""A folder for each rollout, below one of this process. What a process that was killed has left is removed by the next.

The lock on `lock` says that its process lives: the system drops it with the process, however that ends.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

PREFIX, UNFINISHED, LOCK = "gym-mcp-", "gym-new-mcp-", "lock"


class RolloutFolders:
    """Make it with `RolloutFolders.open`."""

    def __init__(self, path: Path, lock: int) -> None:
        self._path, self._lock = path, lock

    @classmethod
    def open(cls) -> RolloutFolders:
        """In the system's folder for temporary files."""
        parent = Path(tempfile.gettempdir())
        remove_stale(parent)
        made = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=parent))
        lock = os.open(made / LOCK, os.O_RDWR | os.O_CREAT)
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Under this name others look at it: it is locked by now.
        return cls(made.rename(made.with_name(made.name.replace(UNFINISHED, PREFIX))), lock)

    def make(self) -> str:
        return tempfile.mkdtemp(prefix="rollout-", dir=self._path)

    async def remove(self, folder: str) -> None:
        if folder:
            with suppress(OSError):
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def aclose(self) -> None:
        await self.remove(str(self._path))
        os.close(self._lock)


def remove_stale(parent: Path) -> None:
    for folder in parent.glob(f"{PREFIX}*"):
        try:
            lock = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:
            continue  # another user's, or removed just now
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(lock)
