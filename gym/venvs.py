"""Virtual environments made by uv in the cache folder, for all stacks. One is usable once its mark is written."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from gym import labels
from gym.programs import find_program, run_program

MARK = ".complete"
BYTECODE = "bytecode"  # the folder
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
HYPOTHESIS = "HYPOTHESIS_STORAGE_DIRECTORY"
UV = "UV"  # where programs that install something find the uv that this package brings


def cache_dir(environ: Mapping[str, str]) -> Path:
    if named := environ.get(labels.ENV_CACHE):
        return Path(named).expanduser().absolute()
    base = environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "compose-gym"


def install_environment(
    folder: Path,
    what: Sequence[str],
    python: str,
    *,
    cwd: Path | None = None,
    timeout: float | None = None,
    requirements: str | None = None,
    compiled: bool = False,
) -> None:
    """An environment of `python` with what uv is asked for; `-` in it stands for the lines of `requirements`. Marked as
    complete at its end.

    `compiled`: all of it, for who may write nothing there. It takes many times as long as what a server imports.
    """
    uv = str(find_program("uv", package="uv"))
    shutil.rmtree(folder, ignore_errors=True)
    run_program([uv, "venv", "--quiet", "--python", python, str(folder)], cwd=cwd, timeout=timeout)
    install = [uv, "pip", "install", "--quiet", "--python", str(folder / "bin" / "python")]
    bytecode = ["--compile-bytecode"] if compiled or os.environ.get(NO_BYTECODE) else []
    run_program([*install, *bytecode, *what], cwd=cwd, env=_without_own_venv(), timeout=timeout, input=requirements)
    (folder / MARK).touch()


def bytecode_elsewhere(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables for a Python that leaves nothing beside what it reads: its bytecode goes to the cache folder."""
    return {} if environ.get(NO_BYTECODE) else {"PYTHONPYCACHEPREFIX": str(cache_dir(environ) / BYTECODE)}


def hypothesis_elsewhere(environ: Mapping[str, str]) -> dict[str, str]:
    """A variable for Hypothesis: its tables of characters, which cost 1.2 s of CPU to make, stay for the next tests."""
    return {HYPOTHESIS: environ.get(HYPOTHESIS) or str(cache_dir(environ) / BYTECODE / "hypothesis")}


def is_made(folder: Path) -> bool:
    """Whether an environment is there, for one who is about to use it: its mark tells when that was last."""
    mark = folder / MARK
    try:
        os.utime(mark)
    except OSError:  # another user's, or a file system that cannot be written
        return mark.is_file()
    return True


def _without_own_venv() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")}


@contextlib.contextmanager
def alone(cache: Path, name: str) -> Iterator[None]:
    """Two stacks that need the same environment at once make it once."""
    (cache / "envs").mkdir(parents=True, exist_ok=True)
    with (cache / "envs" / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
