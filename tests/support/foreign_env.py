"""An environment of its own for a package that CI does not install: made once, or the one that a variable names."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECONDS = 1800.0


def foreign_python(folder: Path, variable: str, *installs: Sequence[str], version: str = "3.12") -> str:
    """The interpreter. `variable` may name one that has everything already; this package is put there as it is."""
    if known := os.environ.get(variable):
        return known
    python = str(folder / "env" / "bin" / "python")
    run(find_python(version), "-m", "venv", str(folder / "env"))
    for words in (*installs, (f"{ROOT}[cli]",)):
        run(python, "-m", "pip", "install", "--quiet", *words)
    return python


def find_python(version: str) -> str:
    """One of pyenv's, or one on the path."""
    roots = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}*/bin/python"))
    found = str(roots[-1]) if roots else shutil.which(f"python{version}")
    if not found:
        pytest.skip(f"no Python {version} here")
    return found


def run(*words: str) -> None:
    subprocess.run(words, check=True, timeout=SECONDS)


def foreign_environ(folder: Path) -> dict[str, str]:
    """This package from the sources, whatever was installed there before."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GYM_", "AGL_", "PYTHON"))}
    return kept | {"PYTHONPATH": str(ROOT), "HOME": str(folder)}
