"""`gym test` as a process: what ends it, and what it prints."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gym.cli.boundary import INTERRUPTED, TERMINATED
from tests.support.docker import eventually
from tests.support.own_server import APP, write_server

HANGS = APP.replace(
    "        right =",
    "        pathlib.Path(f'at-{os.getpid()}').touch()\n        await asyncio.sleep(1e6)\n        right =",
)
STACKLESS = {name: value for name, value in os.environ.items() if name != "GYM_PATH"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A server whose verifier never answers, and says by a file which process waits for it."""
    return write_server(tmp_path / "mine", f"import asyncio, os, pathlib\n{HANGS}")


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGINT, INTERRUPTED, "interrupted; nothing is left running\n"), (signal.SIGTERM, TERMINATED, "")],
)
def test_one_signal_ends_it_with_all_that_it_started(
    folder: Path, number: signal.Signals, code: int, said: str
) -> None:
    argv = (sys.executable, "-m", "gym", "test", "mine")
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(argv, cwd=folder.parent, env=STACKLESS, **pipes) as command:  # type: ignore[call-overload]
        (waits,) = eventually(lambda: list(folder.glob("at-*")), bool)
        command.send_signal(number)
        output, _ = command.communicate(timeout=60)
    assert (command.returncode, output) == (code, said)
    with pytest.raises(ProcessLookupError):
        os.kill(int(waits.name.removeprefix("at-")), 0)
