"""What `gym test` runs a server's tests with: the interpreter of its environment, and pytest beside it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from gym.config import CatalogEntry, is_foreign, requirements_digest, satisfied_extras
from gym.plan import Service, slugify
from gym.programs import find_program, run_program
from gym.runtime.local.server_environments import prepare_environment
from gym.venvs import cache_dir

PYTEST = ("pytest>=8.3,<10", "pytest-asyncio>=0.25,<2", "hypothesis>=6.120,<7")
# Appended, so that whatever the server itself requires wins.
BOOT = "import sys; sys.path.append(sys.argv.pop(1)); import pytest; raise SystemExit(pytest.main())"


def pytest_command(entry: CatalogEntry) -> tuple[str, ...]:
    """pytest in the server's own environment; nothing is added to that environment."""
    cache = cache_dir(os.environ)
    python = server_python(entry, cache)
    if python == Path(sys.executable) and find_spec("pytest"):
        return str(python), "-m", "pytest"
    return str(python), "-c", BOOT, str(pytest_folder(cache, python))


def cached_python(entry: CatalogEntry) -> Path:
    return server_python(entry, cache_dir(os.environ))


def server_python(entry: CatalogEntry, cache: Path) -> Path:
    service = Service(
        name=entry.name,
        slug=slugify(entry.name),
        type=entry.type,
        implementation=entry.implementation,
        launch="script" if is_foreign(entry.directory, "app.py") else "sdk",
        directory=entry.directory,
        requirements_digest=requirements_digest(entry.directory, satisfied_extras()),
    )
    return prepare_environment(service, cache)


def pytest_folder(cache: Path, python: Path) -> Path:
    return pytest_for(cache, _version_of(python))


def pytest_for(cache: Path, version: str) -> Path:
    """pytest and what tests need beside it, installed once for each version of Python."""
    digest = hashlib.sha256(" ".join(PYTEST).encode()).hexdigest()[:8]
    folder = cache / "pytest" / f"{version}-{digest}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _install(folder, version)
    return folder


def _version_of(python: Path) -> str:
    return run_program([str(python), "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]).strip()


def _install(folder: Path, version: str) -> None:
    uv = str(find_program("uv", package="uv"))
    half = folder.with_name(f"{folder.name}.half")
    shutil.rmtree(half, ignore_errors=True)
    # uv itself runs with this Python; what it installs is for the other.
    versions = ("--python", sys.executable, "--python-version", version)
    run_program([uv, "pip", "install", "--quiet", *versions, "--target", str(half), *PYTEST])
    half.rename(folder)
