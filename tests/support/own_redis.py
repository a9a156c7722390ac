"""A Redis or Valkey for each test, with an append-only file, which the test may kill, restart or empty."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path

import pytest


class PrivateRedis:
    """With `tls` it takes nothing else, under a certificate of its own: `ca.pem` in its folder."""

    def __init__(
        self,
        folder: Path,
        password: str = "",
        *,
        program: str = "redis-server",
        tls: bool = False,
        bind: str = "127.0.0.1",
    ) -> None:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not on this machine: apt-get install {program}")
        self.folder, self.password = folder, password
        self._program, self._tls, self._bind = program, tls, bind
        self._reserved = socket.socket()  # bound and never listening: no one else gets the port, and Redis may
        self._reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._reserved.bind((bind, 0))
        self.port = self._reserved.getsockname()[1]
        self.url = f"redis{'s' * tls}://{f':{password}@' if password else ''}127.0.0.1:{self.port}"
        if tls:
            make_certificate(folder, "IP:127.0.0.1")
        self.start()

    def start(self) -> None:
        words = ["--tls-port" if self._tls else "--port", str(self.port), *(["--port", "0"] if self._tls else [])]
        if self._tls:
            words += ["--tls-cert-file", str(self.folder / "ca.pem"), "--tls-key-file", str(self.folder / "key.pem")]
            words += ["--tls-ca-cert-file", str(self.folder / "ca.pem"), "--tls-auth-clients", "no"]
        words += ["--bind", self._bind, "--save", "", "--appendonly", "yes"]
        words += ["--dir", str(self.folder), *(["--requirepass", self.password] if self.password else [])]
        with (self.folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen([self._program, *words], stdout=log, stderr=log)
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


def make_certificate(folder: Path, names: str) -> None:
    """`ca.pem` and `key.pem`, signed by itself; `names` as OpenSSL writes them: `DNS:localhost,IP:127.0.0.1`."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not on this machine: apt-get install openssl")
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "ca.pem")]
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    words = ["openssl", "req", "-x509", *kind, *files, "-subj", "/CN=a Redis of a test"]
    subprocess.run([*words, "-addext", f"subjectAltName={names}"], check=True, capture_output=True, timeout=60)
