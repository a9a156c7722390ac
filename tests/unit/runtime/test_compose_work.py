"""A Compose that outlives its command, and the next command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gym.errors import InfraError
from gym.programs import run_program
from gym.runtime.compose.compose_lock import alone_with_compose, wait_for_compose

UNTIL_THERE = "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.01)"


def leave_at_work(lock: Path, end: Path) -> None:
    """What is left of a command that was killed: a program that ends when the file `end` is there."""
    command = (
        "import os, pathlib, signal, sys\n"
        "from gym.runtime.compose.compose_lock import alone_with_compose\n"
        "from gym.programs import run_program\n"
        f"with alone_with_compose(pathlib.Path({str(lock)!r}), 'demo') as held:\n"
        f"    argv = [sys.executable, '-c', {UNTIL_THERE!r}, {str(end)!r}]\n"
        "    run_program(argv, on_start=lambda _: os.kill(os.getpid(), signal.SIGKILL), pass_fds=(held,))\n"
    )
    assert subprocess.run([sys.executable, "-c", command], check=False).returncode == -9


def test_the_next_command_waits_until_compose_has_finished_what_a_killed_one_began(tmp_path: Path) -> None:
    lock, end = tmp_path / "lock", tmp_path / "end"
    leave_at_work(lock, end)
    with pytest.raises(InfraError, match="cut off") as still:
        wait_for_compose(lock, "gym-demo-1", seconds=0.0)
    assert still.value.hint.endswith("pgrep -af gym-demo-1")

    end.touch()
    wait_for_compose(lock, "gym-demo-1", seconds=60.0)


def test_a_compose_that_has_ended_ends_the_wait(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with alone_with_compose(lock, "demo") as held:
        run_program([sys.executable, "-c", ""], on_start=lambda _: None, pass_fds=(held,))
    wait_for_compose(lock, "demo", seconds=0.0)
