"""Tests that press Ctrl-C mean the same in a terminal and in a background job."""

from __future__ import annotations

import subprocess
import sys

import pytest

CHILD = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
PARENT = f"""
import os, signal, subprocess, sys
from tests.support.signals import let_children_be_interrupted
if "heed" in sys.argv:
    let_children_be_interrupted()
os.kill(os.getpid(), signal.SIGINT)
subprocess.run([sys.executable, "-c", {CHILD!r}], check=True)
"""


@pytest.mark.parametrize(("word", "interrupted"), [("heed", "True"), ("leave", "False")])
def test_children_of_a_background_job_can_be_interrupted(word: str, interrupted: str) -> None:
    argv = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", sys.executable, "-c", PARENT, word]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == interrupted
