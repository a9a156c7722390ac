"""A person's terminal: lines as they are typed, with our commands on the PATH and no container engine."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.cli import GYM, Terminal, environment


class Shell:
    """A person's terminal in an empty folder, with our commands on the PATH."""

    def __init__(self, cwd: Path) -> None:
        self.cwd = cwd
        bin_ = Path(GYM).parent
        self.env = {"PATH": f"{bin_}:/usr/local/bin:/usr/bin:/bin", "DOCKER_HOST": f"unix://{cwd}/no-engine.sock"}

    def type(self, line: str, *, code: int = 0) -> str:
        argv = ["bash", "-c", line]
        done = subprocess.run(
            argv, cwd=self.cwd, env=environment(self.env), capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == code, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def start(self, line: str) -> Terminal:
        return Terminal(
            "-c", f"exec {line}" if "\n" not in line else line, cwd=self.cwd, env=self.env, program="/bin/bash"
        )
