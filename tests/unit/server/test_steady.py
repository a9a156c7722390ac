"""What `gym test` loads before a server's files is kept compiled; the files themselves leave nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = """
import sys
while_loading = sys.dont_write_bytecode
"""
TEST = """
import sys, early
def test_who_may_write():
    assert (early.while_loading, sys.dont_write_bytecode) == EXPECTED
"""


@pytest.mark.parametrize(("said", "expected"), [("1", (False, True)), ("", (False, False))])
def test_bytecode_is_written_until_the_first_file_of_the_folder_is_loaded(
    tmp_path: Path, said: str, expected: tuple[bool, bool]
) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tmp_path / "early.py").write_text(PLUGIN)
    (tests / "conftest.py").write_text("import sys\nassert sys.dont_write_bytecode is " + repr(expected[1]))
    (tests / "test_it.py").write_text(TEST.replace("EXPECTED", repr(expected)))
    argv = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, f"--rootdir={tests}", "--import-mode=importlib"]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": said, "PYTHONPATH": str(tmp_path)}
    options = ["-p", "no:cacheprovider", "-p", "gym.server.steady", "-p", "early", "tests"]
    done = subprocess.run([*argv, *options], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert bool(list(tests.glob("**/*.pyc"))) == (not said)
