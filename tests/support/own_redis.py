"""A Redis for each test, with an append-only file, which the test may kill, restart or empty."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest


class PrivateRedis:
    def __init__(self, folder: Path, password: str = "") -> None:
        if shutil.which("redis-server") is None:
            pytest.skip("redis-server is not on this machine: apt-get install redis-server")
        self.folder, self.password = folder, password
        self._reserved = socket.socket()  # bound and never listening: no one else gets the port, and Redis may
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind(("127.0.0.1", 0))
        self.port = self._reserved.getsockname()[1]
        self.url = f"redis://{f':{password}@' if password else ''}127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        words = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]
        words += ["--dir", str(self.folder), *(["--requirepass", self.password] if self.password else [])]
        with (self.folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(["redis-server", *words], stdout=log, stderr=log)
        while self._process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.01)
        raise RuntimeError((self.folder / "redis.log").read_text("utf-8"))

    def ask(self, *words: str) -> str:
        command = ["redis-cli", "-p", str(self.port), *(["-a", self.password] if self.password else []), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        self.kill()
        self._reserved.close()
