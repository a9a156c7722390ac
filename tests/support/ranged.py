"""A local HTTP server for tests of downloads: byte ranges, and faults that happen once."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar


@dataclass
class Fault:
    """What happens to the next `times` GETs of a path that contains `part`."""

    part: str
    cut_after: int | None = None  # bytes, then the connection is closed
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    spoiled: bool = False  # right length, wrong bytes
    times: int = 1


@dataclass(frozen=True)
class Seen:
    method: str
    path: str
    range: str
    authorized: bool


@dataclass
class Faults:
    """What a server has to do wrong, and what it was asked."""

    waiting: list[Fault] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)

    def cut_off(self, part: str, after: int, times: int = 1) -> None:
        self.waiting.append(Fault(part, cut_after=after, times=times))

    def answer(self, part: str, status: int, times: int = 1, **headers: str) -> None:
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        self.waiting.append(Fault(part, status=status, headers=named, times=times))

    def spoil(self, part: str, times: int = 1) -> None:
        self.waiting.append(Fault(part, spoiled=True, times=times))

    def next(self, path: str) -> Fault | None:
        for fault in self.waiting:
            if fault.part in path and fault.times > 0:
                fault.times -= 1
                return fault
        return None

    def ranges(self, part: str) -> list[str]:
        """The Range of every GET of such a path, in order; "" where the whole was asked for."""
        return [one.range for one in self.seen if one.method == "GET" and part in one.path]


class Handler(BaseHTTPRequestHandler):
    """Replies with JSON or bytes; keeps note of every request."""

    protocol_version = "HTTP/1.1"
    faults: ClassVar[Faults]

    def log_message(self, format: str, *args: Any) -> None:
        """Tests read `faults.seen` instead."""

    def parse_request(self) -> bool:
        fine = super().parse_request()
        if fine:
            asked = self.headers.get("Range", "")
            seen = Seen(self.command, self.path, asked, "Authorization" in self.headers)
            self.faults.seen.append(seen)
        return fine

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "") == "chunked":
            return b"".join(self._chunks())
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline().split(b";")[0], 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def send(self, status: int, data: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def send_json(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.send(status, json.dumps(value).encode(), {"Content-Type": "application/json", **(headers or {})})

    def send_range(self, data: bytes, headers: dict[str, str], *, ranges: bool = True) -> None:
        """The bytes that were asked for, or what a fault makes of them."""
        fault = self.faults.next(self.path) if self.command == "GET" else None
        if fault and fault.status:
            self.send(fault.status, b"", fault.headers)
            return
        if fault and fault.spoiled:
            data = bytes(byte ^ 1 for byte in data)
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "")) if ranges else None
        begin = int(asked[1]) if asked else 0
        if asked and begin >= len(data):
            self.send(416, b"", {"Content-Range": f"bytes */{len(data)}"})
            return
        if asked:
            headers = {**headers, "Content-Range": f"bytes {begin}-{len(data) - 1}/{len(data)}"}
        rest = data[begin:]
        if fault and fault.cut_after is not None:
            self.send(206 if asked else 200, b"", {**headers, "Content-Length": str(len(rest))})
            self.wfile.write(rest[: fault.cut_after])
            self.wfile.flush()
            self.close_connection = True
            return
        self.send(206 if asked else 200, rest, headers)


@contextmanager
def serving(handler: type[Handler]) -> Iterator[int]:
    """The port on which the handler answers."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
