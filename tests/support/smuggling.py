"""Requests that two readers could understand in two ways, and what a backend behind the router saw of them."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Final

TYPED: Final = b"Content-Type: application/json\r\n"
CHUNKED: Final = b"Transfer-Encoding: chunked\r\n"
SECOND: Final = b"POST /smuggled HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"

# What stands after the request line, Host and Connection. Each is one request at most; none may be two.
AMBIGUOUS: Final = {
    "a length and chunks": TYPED + b"Content-Length: 6\r\n" + CHUNKED + b"\r\n0\r\n\r\nG",
    "a length that ends inside the chunks": TYPED
    + b"Content-Length: 4\r\n"
    + CHUNKED
    + b"\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(SECOND), SECOND),
    "two lengths": TYPED + b"Content-Length: 2\r\nContent-Length: 70\r\n\r\n{}" + SECOND,
    "a list of lengths": TYPED + b"Content-Length: 2, 45\r\n\r\n{}" + SECOND,
    "a length with a sign": TYPED + b"Content-Length: +2\r\n\r\n{}",
    "a length in hex": TYPED + b"Content-Length: 0x2\r\n\r\n{}",
    "chunks by another name": TYPED + b"Content-Length: 5\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunks with a space before the colon": TYPED
    + b"Content-Length: 5\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "chunks twice, once otherwise": TYPED + CHUNKED + b"Transfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "chunks on a folded line": TYPED + b"Transfer-Encoding:\r\n chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "a carriage return in a value": TYPED + b"X-A: b\rContent-Length: 70\r\n\r\n" + SECOND,
    "a zero byte in a value": TYPED + b"X-A: b\0c\r\nContent-Length: 2\r\n\r\n{}",
    "a chunk whose size runs over": TYPED + CHUNKED + b"\r\n10000000000000002\r\n{}\r\n0\r\n\r\n",
    "a chunk that ends with a line feed alone": TYPED + CHUNKED + b"\r\n2\n{}\n0\n\n",
    "an extension of a chunk with a line feed": TYPED + CHUNKED + b"\r\n2;a\nxx\r\n{}\r\n0\r\n\r\n",
    "a length in a trailer": TYPED
    + CHUNKED
    + b"Trailer: Content-Length\r\n\r\n2\r\n{}\r\n0\r\nContent-Length: 9\r\n\r\n",
    "two hosts": b"Host: evil.example\r\n" + TYPED + b"Content-Length: 2\r\n\r\n{}",
}


def exchange(port: int, request: bytes) -> bytes:
    """All that comes back to these bytes, until the other side closes: ask it to."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sock:
        sock.sendall(request)
        found = b""
        with suppress(ConnectionResetError):
            while part := sock.recv(65536):
                found += part
        return found


class RawBackend:
    """Keeps the bytes of each connection, and answers whatever ends a head."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.received: list[bytearray] = []
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def connections(self) -> list[bytes]:
        """All that came on each."""
        return [bytes(one) for one in self.received]

    def request(self, path: bytes) -> bytes:
        """What came from the request line with this path on; nothing where none did."""
        line = b"POST " + path + b" HTTP/1.1"
        return next((one[one.index(line) :] for one in self.connections() if line in one), b"")

    def stop(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(60)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                self._open.append(sock)
                self.received.append(bytearray())
                thread = threading.Thread(target=self._answer, args=(sock, self.received[-1]), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _answer(self, sock: socket.socket, kept: bytearray) -> None:
        with sock, suppress(OSError):
            while part := sock.recv(65536):
                kept += part
                sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok" * part.count(b"\r\n\r\n"))
