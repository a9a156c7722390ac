"""What a patch may not change, unless the gold patch does."""

from __future__ import annotations

import pytest
from protection import is_protected
from tasks import Task

TASK = Task(
    test_patch="diff --git a/checks/odd.py b/checks/odd.py\n",
    patch="diff --git a/setup.cfg b/setup.cfg\ndiff --git a/tests/helper.py b/tests/helper.py\n",
    FAIL_TO_PASS=("lib/self_check.py::test_a",),
)


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py",
        "a/b/conftest.py",
        "pytest.ini",
        "tox.ini",
        "pyproject.toml",
        "sitecustomize.py",
        "a/x.pth",
        "pytest.py",
    ]
    + ["_pytest/runner.py", "evil.egg-info/entry_points.txt", "tests", "tests/test_x.py", "src/tests/data/a.txt"]
    + ["src/x_test.py", "src/test_x.py", "checks/odd.py", "lib/self_check.py", "a/__pycache__/b.pyc", "Tests/x.py"],
)
def test_tests_and_what_runs_them_are_protected(path: str) -> None:
    assert is_protected(path, TASK)


@pytest.mark.parametrize(
    "path", ["src/a.py", "setup.cfg", "tests/helper.py", "docs/testing.md", "src/contest.py", "latest.py"]
)
def test_sources_and_what_the_gold_patch_changes_are_not(path: str) -> None:
    assert not is_protected(path, TASK)
