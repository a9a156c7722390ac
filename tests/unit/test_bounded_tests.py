"""A test that hangs costs its own time: it fails with the stacks of all threads, and the next one runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HANGS = """
import asyncio
import threading

import pytest


@pytest.fixture
def never_ready():
    threading.Event().wait()


@pytest.fixture
def never_gone():
    yield
    threading.Event().wait()


def test_call(): threading.Event().wait()
async def test_loop(): await asyncio.Event().wait()
def test_setup(never_ready): ...
def test_teardown(never_gone): ...
def test_that_is_fine(): ...
"""


def test_what_hangs_is_ended_with_its_stacks_and_the_rest_runs(tmp_path: Path) -> None:
    (tmp_path / "test_hangs.py").write_text(HANGS)
    bound = (ROOT / "tests" / "conftest.py").read_text()
    assert "TEST_SECONDS = 600.0" in bound
    (tmp_path / "conftest.py").write_text(bound.replace("TEST_SECONDS = 600.0", "TEST_SECONDS = 0.5"))
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
    argv += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert "2 failed, 2 passed, 2 errors" in done.stdout, done.stdout[-3000:]
    assert done.stdout.count("took longer than 0.5 s") >= 4
    assert "in test_call" in done.stdout + done.stderr
