"""Which paths of a patch are not the patch's to change: tests, and what decides how tests are run. Pure."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from tasks import Task, patched_files

# What pytest, the interpreter or a test runner reads before the first test, from wherever the code lies.
RUNNERS: Final = frozenset(
    (
        "conftest.py",
        "pytest.ini",
        ".pytest.ini",
        "pytest.toml",
        ".pytest.toml",
        "tox.ini",
        "setup.cfg",
        "pyproject.toml",
    )
    + ("sitecustomize.py", "usercustomize.py", "noxfile.py", "runtests.py", ".gitattributes")
)
# A module of one of these names would stand before the real one.
SHADOWS: Final = frozenset(("pytest", "_pytest", "pluggy", "unittest", "iniconfig", "xdist", "py", "site"))
SUFFIXES: Final = (".pth", ".egg-info", ".dist-info", ".egg-link", ".pyc", ".so")


def is_protected(path: str, task: Task) -> bool:
    """Restored before the tests run, unless the gold patch changes that very path."""
    if path in patched_files(task.test_patch) or path in {one.partition("::")[0] for one in task.ids}:
        return True
    return looks_protected(path) and path not in patched_files(task.patch)


def looks_protected(path: str) -> bool:
    pure = PurePosixPath(path)
    name = pure.name.casefold()
    if name in RUNNERS or name.startswith("test_") or name.removesuffix(".py").endswith(("_test", "_tests")):
        return True
    if pure.parts[0].removesuffix(".py") in SHADOWS:
        return True
    folders = {part.casefold() for part in pure.parts}
    return (
        bool(folders & {"tests", "__pycache__"}) or any(part.endswith(SUFFIXES) for part in folders) or name == "test"
    )
