"""A Docker engine with no containers, and a `docker` command that keeps the Compose file it is asked to start."""

from __future__ import annotations

import http.server
import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

PYTHON: Final = {"Id": "sha256:python", "RepoTags": ["python:3.13-slim"], "RepoDigests": []}
REPLIES: Final[dict[str, Any]] = {
    "version": {"Version": "28.5.2", "ApiVersion": "1.47", "MinAPIVersion": "1.24"},
    "info": {"NCPU": 2, "Architecture": "x86_64"},
    "containers/json": [],
    "images/json": [PYTHON],
    "networks": [],
    "networks/bridge": {"IPAM": {"Config": [{"Gateway": "127.0.0.1"}]}},
    "volumes": {"Volumes": []},
}
COMMAND: Final = """#!/bin/sh
case "$*" in
  "compose version --short") echo 2.40.3 ;;
  "compose "*" up "*) cp compose.yaml "{kept}"; echo "the stub starts nothing" >&2; exit 1 ;;
esac
"""


@contextmanager
def stub_docker(folder: Path) -> Iterator[dict[str, str]]:
    """The environment in which commands find both. What Compose was to start is `folder`/started.yaml."""
    folder.mkdir()
    command = folder / "docker"
    command.write_text(COMMAND.replace("{kept}", str(folder / "started.yaml")))
    command.chmod(0o755)
    socket = folder / "docker.sock"
    with socketserver.ThreadingUnixStreamServer(str(socket), _Engine) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield {"DOCKER_HOST": f"unix://{socket}", "PATH": f"{folder}:/usr/bin:/bin"}
        finally:
            server.shutdown()
            thread.join()


class _Engine(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path = self.path.partition("?")[0].strip("/")
        path = path.partition("/")[2] if path.startswith("v1.") else path
        body = json.dumps(REPLIES.get(path, {"message": f"the stub has no {path}"})).encode()
        self.send_response(200 if path in REPLIES else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not shown."""
