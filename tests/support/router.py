"""A real router in front of real backends: Traefik with the files we render, small HTTP servers of the test."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from gym.files import write_atomically
from gym.plan.model import Plan, RouterPlan, Service
from gym.render.console_document import console_document
from gym.render.traefik import traefik_dynamic, traefik_static
from gym.wire.discovery import Discovery, InstanceView, ReplicaView, replica_route
from gym.wire.server_types import ServerType

TRAEFIK = Path(sys.executable).with_name("traefik")
# Traefik takes the socket that it finds as descriptor 3 if LISTEN_PID is its own pid: known only just before the exec.
EXEC = (
    "import os, sys\n"
    "os.dup2(int(sys.argv[1]), 3)\n"
    "os.environ['LISTEN_PID'] = str(os.getpid())\n"
    "os.execv(sys.argv[2], sys.argv[2:])\n"
)


def eventually(condition: Callable[[], Any], *, seconds: float = 120.0, what: str = "it") -> Any:
    """The first true value of `condition`; the deadline only bounds a failing test."""
    ends = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < ends, f"{what} did not come about within {seconds} s"
        time.sleep(0.02)


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def cookies(self) -> list[str]:
        return self.headers.get_all("set-cookie") or []


def ask(
    url: str, path: str, *, method: str = "GET", body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> Answer:
    """One request on a connection of its own; the path goes out as it is."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=120)
    try:
        typed = {"content-type": "application/json"} if body else {}
        connection.request(method, path, body=body, headers={**typed, **(headers or {})})
        reply = connection.getresponse()
        return Answer(reply.status, reply.headers, reply.read())
    finally:
        connection.close()


class Backend:
    """An HTTP server that remembers what it was asked and answers with its own name."""

    def __init__(self, name: str = "one", token: str = "") -> None:
        self.name = name
        self.token = token  # what /auth lets pass
        self.healthy = True
        self.drop_after_reading = False
        self.status = 200
        self.probes = 0
        self.release = threading.Event()  # /slow and /stream wait for it
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self.pages: dict[str, bytes] = {}  # path -> HTML
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self.port = int(self._server.server_address[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def paths(self) -> list[str]:
        return [path for _, path, _ in self.seen]

    def stop(self) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A peer that hung up is what some tests are about."""


def _handler(backend: Backend) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            if self.path == "/healthz":
                backend.probes += 1
                self._reply(200 if backend.healthy else 503, b"{}")
                return
            backend.seen.append((self.command, self.path, {key.lower(): value for key, value in self.headers.items()}))
            if self.path == "/auth":
                good = self.headers.get("authorization") == f"Bearer {backend.token}"
                self._reply(200 if good else 401, b"")
            elif backend.drop_after_reading:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
            elif self.path == "/stream":
                self._stream()
            else:
                if self.path == "/slow":
                    backend.release.wait(120)
                seen = {"backend": backend.name, "path": self.path, "body": body.decode()}
                page = backend.pages.get(self.path)
                kind = "text/html" if page else "application/json"
                self._reply(backend.status, page or json.dumps(seen).encode(), kind)

        do_GET = do_POST = do_PUT = do_DELETE = do_OPTIONS = _answer

        def _reply(self, status: int, body: bytes, kind: str = "application/json") -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def _stream(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"9\r\ndata: 1\n\n\r\n")
            self.wfile.flush()
            backend.release.wait(120)
            self.wfile.write(b"9\r\ndata: 2\n\n\r\n0\r\n\r\n")

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    return Handler


def service(name: str, slug: str = "", **fields: Any) -> Service:
    kind: ServerType = "resources_servers"
    return Service(
        **{"name": name, "slug": slug or name.replace("_", "-"), "type": kind, "implementation": name, "launch": "sdk"}
        | fields
    )


@dataclass
class Router:
    """A running Traefik, the plan behind it, and where its files are."""

    home: Path
    plan: Plan
    console: str
    url: str
    process: subprocess.Popen[bytes]
    generation: int = 0

    def show(self, replicas: Mapping[str, list[str]]) -> None:
        """Rewrite the dynamic file so that the instances have these replicas."""
        self.generation += 1
        instances = {
            one.name: InstanceView(
                type=one.type,
                implementation=one.implementation,
                replicas=tuple(_replica(one, i, url) for i, url in enumerate(urls, 1)),
            )
            for one, urls in ((one, replicas[one.name]) for one in self.plan.services)
        }
        discovery = Discovery(stack=self.plan.stack, generation=self.generation, router=self.url, instances=instances)
        write_atomically(self.home / "discovery.json", discovery.model_dump_json())
        text = traefik_dynamic(self.plan, discovery, console=self.console)
        write_atomically(self.home / "dynamic" / "gym.yml", text)

    def log(self) -> str:
        return (self.home / "traefik.log").read_text()

    def access(self) -> list[dict[str, Any]]:
        path = self.home / "access.log"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(120)


def _replica(one: Service, number: int, url: str) -> ReplicaView:
    id = f"{one.slug}-{number}"
    return ReplicaView(id=id, url=url, route=replica_route(one.type, id))


@contextmanager
def router(
    home: Path,
    services: tuple[Service, ...],
    replicas: Mapping[str, list[str]],
    console_url: str,
    *,
    needs_token: bool = False,
) -> Iterator[Router]:
    plan = Plan(stack="test", services=services, router=RouterPlan(needs_token=needs_token), drain_seconds=5)
    (home / "dynamic").mkdir(parents=True)
    access_log = str(home / "access.log")
    static = traefik_static(plan, directory=str(home / "dynamic"), outside="127.0.0.1:0", access_log=access_log)
    write_atomically(home / "traefik.yml", static)
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        process = _start(home, listener)
    running = Router(home, plan, console_url, url, process)
    try:
        running.show(replicas)
        eventually(lambda: ask(url, "/metrics").status != 404 or None, what="the router's first answer")
        yield running
    finally:
        running.stop()


@contextmanager
def traefik_on(home: Path, entry_point: str) -> Iterator[str]:
    """A router by the file `traefik.yml` that is there; the URL of that entry point."""
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        process = _start(home, listener, entry_point)
    try:
        yield url
    finally:
        process.terminate()
        process.wait(120)


def _start(home: Path, listener: socket.socket, entry_point: str = "outside") -> subprocess.Popen[bytes]:
    environ = {**os.environ, "LISTEN_FDS": "1", "LISTEN_FDNAMES": entry_point}
    command = [sys.executable, "-I", "-S", "-c", EXEC, str(listener.fileno()), str(TRAEFIK), "--configfile=traefik.yml"]
    with (home / "traefik.log").open("wb") as log:
        return subprocess.Popen(command, cwd=home, env=environ, stdout=log, stderr=log, pass_fds=(listener.fileno(),))


@contextmanager
def console(home: Path, plan: Plan, *, token: str = "") -> Iterator[str]:
    """A real console process over the files in `home`; its URL."""
    write_atomically(home / "console.json", json.dumps(console_document(plan)))
    environ = {
        **os.environ,
        "GYM_DISCOVERY": str(home / "discovery.json"),
        "GYM_CONSOLE_CONFIG": str(home / "console.json"),
        "GYM_TOKEN": token,
    }
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        variables = {**environ, "GYM_LISTEN": f"fd:{listener.fileno()}"}
        command = [sys.executable, "-m", "gym.console"]
        process = subprocess.Popen(command, env=variables, pass_fds=(listener.fileno(),))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    try:
        yield url
    finally:
        process.terminate()
        process.wait(120)
