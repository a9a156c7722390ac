"""Drives the real `gym` command: in a process of its own, through pipes or on a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

GYM = str(Path(sys.executable).with_name("gym"))
DEADLINE = 180.0
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\r")


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's, without what would change a command's mind."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("GYM_", "NEMO_GYM_"))}
    return kept | {"COLUMNS": "140", "TERM": "xterm-256color"} | dict(extra or {})


def gym(
    *words: str, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = DEADLINE
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [GYM, *words],
        cwd=cwd,
        env=environment(env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


class Terminal:
    """`gym` on a pseudo-terminal: what it shows, Ctrl-C, and whether it leaves the terminal as it was."""

    def __init__(self, *words: str, cwd: Path, env: Mapping[str, str] | None = None, program: str = GYM) -> None:
        self._master, slave = pty.openpty()
        self._slave = slave
        self._before = termios.tcgetattr(slave)
        self.shown = ""
        # The slave becomes the controlling terminal, so that a ^C typed into it is a SIGINT.
        starter = (
            "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-c", starter, program, *words],
            cwd=cwd,
            env=environment(env),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._master)
        os.close(self._slave)

    @property
    def text(self) -> str:
        return ESCAPES.sub("", self.shown)

    def wait_for(self, pattern: str, timeout: float = DEADLINE) -> None:
        """Until the text shown so far holds the pattern."""
        ends = time.monotonic() + timeout
        while not re.search(pattern, self.text):
            if not self._read(0.1) and self.process.poll() is not None and not self._read(0.1):
                raise AssertionError(f"ended without {pattern!r}:\n{self.text}")
            if time.monotonic() > ends:
                raise AssertionError(f"never showed {pattern!r}:\n{self.text}")

    def write(self, text: str) -> None:
        os.write(self._master, text.encode())

    def press_ctrl_c(self) -> None:
        os.write(self._master, b"\x03")

    def wait(self, timeout: float = DEADLINE) -> int:
        """The exit code; everything shown until then is read."""
        ends = time.monotonic() + timeout
        while self.process.poll() is None:
            self._read(0.1)
            if time.monotonic() > ends:
                raise AssertionError(f"did not end:\n{self.text}")
        while self._read(0.1):
            pass
        return self.process.returncode

    def is_sane(self) -> bool:
        """The terminal's modes are as they were, and a hidden cursor was shown again."""
        hidden, shown = self.shown.rfind("\x1b[?25l"), self.shown.rfind("\x1b[?25h")
        return termios.tcgetattr(self._slave) == self._before and hidden <= shown

    def _read(self, timeout: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], timeout)
        if ready:
            self.shown += os.read(self._master, 65536).decode("utf-8", "replace")
        return bool(ready)
