"""A Ray cluster of several raylets on this machine, each a node with folders of its own."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from gym.programs import find_program

ROOT = Path(__file__).parents[2]
START_SECONDS = 600.0


class Raylets:
    """The head is node 1. Folders are short: Ray puts sockets in them."""

    def __init__(self, python: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
        self._bin = python.parent
        self.gym = str(self._bin / "gym")
        token = self.folder / "token"
        token.write_text(secrets.token_hex(32))
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("RAY_", "GYM_", "NEMO_GYM_"))}
        # A loaded machine is no broken one.
        patient = {"RAY_agent_register_timeout_ms": "600000", "RAY_worker_register_timeout_seconds": "600"}
        own = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token), "RAY_USAGE_STATS_ENABLED": "0"}
        self.env = {**kept, **own, **patient, "PATH": f"{self._bin}{os.pathsep}{kept['PATH']}"}
        self.address = ""

    def start(self, nodes: int) -> None:
        self._start_node(1, "--head", "--port=0", "--include-dashboard=false")
        address = (self.folder / "n1" / "r" / "ray_current_cluster").read_text().strip()
        self.address = self.env["RAY_ADDRESS"] = address
        for number in range(2, nodes + 1):
            self._start_node(number, f"--address={address}")

    def _start_node(self, number: int, *words: str) -> None:
        folder = self.folder / f"n{number}"
        folder.mkdir()
        env = {key: value for key, value in self.env.items() if key != "RAY_ADDRESS"}
        env["GYM_CACHE_DIR"] = str(folder / "cache")
        argv = [str(self._bin / "ray"), "start", *words, "--num-cpus=2", f"--temp-dir={folder / 'r'}"]
        with (folder / "start.log").open("wb") as log:  # a pipe would be held open by what it leaves behind
            subprocess.run(argv, env=env, stdout=log, stderr=log, timeout=START_SECONDS, check=True)

    def raylet(self, number: int) -> int:
        """The process id of a node's raylet."""
        return next(pid for pid, line in self.processes() if "/raylet/raylet" in line and f"/n{number}/" in line)

    def kill_node(self, number: int) -> None:
        os.kill(self.raylet(number), signal.SIGKILL)

    def processes(self) -> Iterator[tuple[int, str]]:
        """Everything whose command line names a folder of this cluster."""
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                line = path.read_bytes().decode("utf-8", "replace").replace("\0", " ")
                if str(self.folder) in line:
                    yield int(path.parent.name), line

    def stop(self) -> None:
        deadline = time.monotonic() + 60
        while (left := [pid for pid, _ in self.processes()]) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)
        shutil.rmtree(self.folder, ignore_errors=True)


def ray_environment(folder: Path) -> Path:
    """The Python of an environment with gym as it is here, and Ray."""
    uv = str(find_program("uv", package="uv"))
    python = folder / "bin" / "python"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
    install = [uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", str(python)]
    subprocess.run([*install, "--editable", f"{ROOT}[cli,upstream,ray]"], check=True)
    return python
