"""The science packages where no engine builds images: an environment of this machine's Python, made by uv once, for all
stacks, in the cache folder. A failure is kept for a while, so that not every sandbox waits for another one."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import time
from pathlib import Path
from typing import Final

from gym.broker.provider import Progress
from gym.errors import GymError, ProgramFailed
from gym.files import asset_dir
from gym.programs import run_program
from gym.sandbox.science import PACKAGES
from gym.venvs import MARK, alone, cache_dir, install_environment, is_made
from gym.wire.failures import RolloutError

INSTALL_SECONDS: Final = 900.0
RETRY_SECONDS: Final = 300.0
LAST_LINES: Final = 8
# Copies: what plain processes might change here must not be uv's own cache. Nothing is compiled for an hour.
INSTALL: Final = ("--require-hashes", "--only-binary", ":all:", "--link-mode", "copy")


class ScienceEnvironment:
    """`path` is where sandboxes look for their `python3`: the environment is of the one that they would find there."""

    def __init__(self, path: str, cache: Path | None = None, requirements: Path | None = None) -> None:
        self._path = path
        self._cache = cache
        self._requirements = requirements
        self._failed: tuple[float, str] | None = None
        self._lock = asyncio.Lock()

    async def make(self, progress: Progress | None = None) -> Path:
        """Its folder; `bin/python3` in it is the interpreter."""
        async with self._lock:
            if self._failed is not None and time.monotonic() - self._failed[0] < RETRY_SECONDS:
                raise _cannot(self._failed[1])
            try:
                return await asyncio.to_thread(self._make, progress or _quiet)
            except (GymError, OSError) as error:
                words = _words(error)
                self._failed = (time.monotonic(), words)
                raise _cannot(words) from error

    def _make(self, progress: Progress) -> Path:
        python = shutil.which("python3", path=self._path)
        if python is None:
            raise FileNotFoundError(2, f"there is no python3 on {self._path}")
        cache = self._cache or cache_dir(os.environ)
        requirements = self._requirements or asset_dir("requirements") / "science.txt"
        folder = cache / "envs" / environment_name(python, requirements)
        if is_made(folder):
            return folder
        progress(f"installing {', '.join(PACKAGES)} for {python}")
        with alone(cache, folder.name):
            if not (folder / MARK).is_file():
                # Copies: what plain processes might change here must not be uv's own cache. No compiling for an hour.
                what = ["--require-hashes", "--only-binary", ":all:", "--link-mode", "copy"]
                what += ["--requirement", str(requirements)]
                install_environment(folder, what, python, timeout=INSTALL_SECONDS, compiled=True)
        return folder


def environment_name(python: str, requirements: Path) -> str:
    """By what is in it, and for which Python."""
    version = run_program([python, "-c", "import sys; print(sys.version)"], timeout=60)
    parts = (requirements.read_bytes(), str(Path(python).resolve()).encode(), version.encode())
    return "science-" + hashlib.sha256(b"\0".join(parts)).hexdigest()[:24]


def _cannot(words: str) -> RolloutError:
    what = f"no Python with {', '.join(PACKAGES)} could be made for programs here: {words}"
    return RolloutError("sandbox", what, server="sandbox", retryable=False)


def _words(error: Exception) -> str:
    if isinstance(error, ProgramFailed):
        return "\n".join(error.output.strip().splitlines()[-LAST_LINES:]) or str(error)
    return str(error)


def _quiet(_: str) -> None:
    return None
