"""Origins on loopback, a gate that writes down what it saw, and programs that a sandbox runs to reach them."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, TypeVar

from gym.broker.config import EgressConfig
from gym.broker.egress.destinations import EgressDenied
from gym.broker.egress.gate import RelayEgressGate

GOOD, ALSO, BAD = "good.example", "also.example", "bad.example"
HERE = (GOOD, ALSO)  # both lead to loopback, which the operator of these tests opens for them by name
GET = """
import sys, urllib.error, urllib.request
try:
    with urllib.request.urlopen(sys.argv[1], timeout=60) as reply:
        print(reply.status, reply.read().decode())
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
except Exception as error:
    print("none", error)
"""
TLS = """
import socket, ssl, sys
host, port, name = sys.argv[1], int(sys.argv[2]), sys.argv[3] or None
sock = socket.create_connection(("127.9.9.9", 3128), 60)
sock.sendall(f"CONNECT {host}:{port} HTTP/1.1\\r\\nHost: {host}:{port}\\r\\n\\r\\n".encode())
said = b""
while not said.endswith(b"\\r\\n\\r\\n") and (more := sock.recv(1)):
    said += more
print(said.split(b"\\r\\n")[0].decode())
if b" 200 " in said:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        inside = context.wrap_socket(sock, server_hostname=name)
        inside.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
        data = b""
        while more := inside.recv(4096):
            data += more
        print(data.split(b"\\r\\n\\r\\n")[1].decode())
    except OSError as error:
        print("cut off")
"""


class Origin:
    """Answers every request with the reply it was given, and keeps the requests."""

    def __init__(self, body: bytes = b"hello") -> None:
        self.body = body
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.port = 0
        self.lost = asyncio.Event()  # a connection ended without a word
        self.busy = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head)
            if b"/echo" in head.split(b"\r\n")[0]:
                await self._echo(reader, writer)
            else:
                await self._answer(head, reader, writer)
        except (OSError, EOFError):
            self.lost.set()
        finally:
            writer.close()

    async def _echo(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")
        self.busy.set()
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        self.lost.set()

    async def _answer(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sizes = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
        self.bodies.append(await reader.readexactly(int(sizes[0])) if sizes else b"")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(self.body))
        writer.write(self.body)
        await writer.drain()


T = TypeVar("T", bound=Origin)


@contextlib.asynccontextmanager
async def origin(body: bytes = b"hello", *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Origin]:
    async with listening(Origin(body), tls) as one:
        yield one


@contextlib.asynccontextmanager
async def listening(one: T, tls: ssl.SSLContext | None = None) -> AsyncIterator[T]:
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0, ssl=tls)
    one.port = server.sockets[0].getsockname()[1]
    async with server:
        yield one


class Index(Origin):
    """The files of a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    async def _answer(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.body = (self._folder / head.split(b" ")[1].decode().rpartition("/")[2]).read_bytes()
        await super()._answer(head, reader, writer)


@contextlib.asynccontextmanager
async def package_index(folder: Path) -> AsyncIterator[Index]:
    async with listening(Index(folder)) as one:
        yield one


def certificate(folder: Path) -> ssl.SSLContext:
    key, cert = folder / "key.pem", folder / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={GOOD}"]
        + ["-addext", f"subjectAltName=DNS:{GOOD}", "-keyout", str(key), "-out", str(cert)],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context


async def resolve(host: str, seconds: float) -> list[str]:
    """The names of these tests, none of which exists."""
    if host[0].isdigit() or ":" in host:
        return [host]
    known = {GOOD: "127.0.0.1", ALSO: "127.0.0.1", "inside.example": "127.0.0.1", "metadata.example": "169.254.169.254"}
    if host not in known:
        raise EgressDenied(f"{host} could not be resolved: it is not there", gateway=True)
    return [known[host]]


class Seen:
    """A gate and its log."""

    def __init__(self, *ports: int, **fields: Any) -> None:
        config = EgressConfig.model_validate({"ports": ports, "private": HERE, **fields})
        self.ports = ports
        self.lines: list[dict[str, Any]] = []
        self.gate = RelayEgressGate(config, self.note, resolve)

    def note(self, event: str, **facts: Any) -> None:
        self.lines.append({"event": event, **facts})

    def verdicts(self, how: str) -> list[tuple[str, str]]:
        return [(one["host"], one["verdict"]) for one in self.lines if one["how"] == how]

    async def written(self, how: str, count: int) -> list[tuple[str, str]]:
        """So many verdicts: a line is written when its connection is over, and its reader may be gone before."""
        await until(lambda: len(self.verdicts(how)) >= count)
        return self.verdicts(how)


def python(text: str, *words: object) -> str:
    return " ".join(("python3", "-c", shlex.quote(text), *(shlex.quote(str(word)) for word in words)))


async def until(holds: Callable[[], bool], seconds: float = 120.0) -> None:
    ends = asyncio.get_running_loop().time() + seconds
    while not holds():
        assert asyncio.get_running_loop().time() < ends, "it did not come to be"
        await asyncio.sleep(0.02)
