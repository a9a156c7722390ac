"""A Redis for each test, which the test may kill."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path

START = Path(__file__).parents[1] / "redis" / "start.sh"
PASSWORD = """two words, "quotes" and a \\ in no log$"""


class OwnRedis:
    def __init__(self) -> None:
        self.reserved = socket.socket()  # bound and never listening: no one else gets the port, and Redis may
        self.reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.reserved.bind(("127.0.0.1", 0))
        self.port = self.reserved.getsockname()[1]
        self.process = self._start()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        self.kill()
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        argv = ("sh", str(START), str(self.port))
        env = {"PATH": "/usr/bin:/bin:/usr/local/bin:/opt/homebrew/bin", "REDIS_PASSWORD": PASSWORD}
        process = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return process
            time.sleep(0.01)
        raise RuntimeError(f"redis-server ended with {process.returncode}")
