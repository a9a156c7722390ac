"""A Python 3.12, which some trainers want: their wheels have no later one."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


def find_python312() -> str:
    """What `GYM_TEST_PYTHON312` names, else `python3.12` and pyenv's; the test is left out where none is."""
    found = next(filter(_runs, _named()), None)
    if found is None:
        pytest.skip("no Python 3.12: GYM_TEST_PYTHON312 names one")
    return found


def _named() -> Iterator[str]:
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from filter(None, (os.environ.get("GYM_TEST_PYTHON312"), shutil.which("python3.12")))
    yield from map(str, root.glob("versions/3.12.*/bin/python3"))


def _runs(python: str) -> bool:
    """A shim of pyenv is there also where it has nothing to run."""
    return not subprocess.run((python, "-c", ""), capture_output=True, check=False).returncode
