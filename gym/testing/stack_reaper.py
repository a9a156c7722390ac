"""Ends a test's stack when the process that started it is gone: nothing else would end what a killed test leaves.

    python -m gym.testing.stack_reaper HOME RUNTIME [FOLDER]

FOLDER was made for the stack and goes with it. It reads from a pipe whose other end the test holds: a line means that
all is done, and the end of the pipe that the test was killed.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

from gym.runtime.runtime_names import RUNTIMES, RuntimeName

DONE = b"done\n"


class StackReaper:
    def __init__(self, home: Path, runtime: RuntimeName, *made: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gym.testing.stack_reaper", str(home), runtime, *map(str, made)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a Ctrl-C, or the end of the test's session, is not its own
        )

    def dismiss(self) -> None:
        """The stack is gone already."""
        self._process.communicate(DONE)


def main(home: Path, runtime: RuntimeName, *made: str) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if sys.stdin.buffer.readline() == DONE:
        return
    from gym.cli.stack_session import make_runtime  # noqa: PLC0415  (most stacks are ended by their tests)

    make_runtime(runtime).down(home)
    for folder in made:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), next(name for name in RUNTIMES if name == sys.argv[2]), *sys.argv[3:])
