"""A real browser before a page of a test's own: what the page tells comes back."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
QUIET = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")


class Site:
    """Serves one page, which asks for its `/targets` and sends what it found to `/found`."""

    def __init__(self, page: Path, targets: Sequence[str]) -> None:
        self.found: dict[str, str] = {}
        self.done = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, page.read_bytes(), targets))
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(site: Site, page: bytes, targets: Sequence[str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/targets":
                self._reply("application/json", json.dumps(targets).encode())
            else:
                self._reply("text/html", page)

        def do_POST(self) -> None:
            site.found = json.loads(self.rfile.read(int(self.headers["content-length"])))
            self._reply("text/plain", b"")
            site.done.set()

        def _reply(self, kind: str, body: bytes) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    return Handler


@contextmanager
def open_browser(url: str, profile: Path, *options: str) -> Iterator[None]:
    command = [CHROMIUM, *QUIET, *options, f"--user-data-dir={profile}", "--remote-debugging-port=0", url]
    with (profile.parent / "browser.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.terminate()
        process.wait(120)


def read_page(url: str, profile: Path, *options: str) -> str:
    """The DOM once the page has come to rest."""
    command = [
        CHROMIUM,
        *QUIET,
        *options,
        f"--user-data-dir={profile}",
        "--virtual-time-budget=3000",
        "--dump-dom",
        url,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=400, check=True).stdout
