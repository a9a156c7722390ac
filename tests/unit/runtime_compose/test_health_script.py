"""`gym-healthy`, the health check of every image: one server, or the ports of several that share a container."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.router import Backend

SCRIPT = Path(__file__).parents[3] / "compose" / "base" / "gym-healthy"

pytestmark = pytest.mark.skipif(not shutil.which("bash"), reason="it is written for the bash of the images")


@pytest.fixture
def backends() -> Iterator[tuple[Backend, Backend]]:
    pair = (Backend("one"), Backend("two"))
    yield pair
    for one in pair:
        one.stop()


def check(*words: str, proc: str = "/proc") -> tuple[int, list[str]]:
    env = {**os.environ, "GYM_PROC": proc}
    argv = ["bash", str(SCRIPT), *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120, env=env)
    return done.returncode, done.stdout.splitlines()


def write_proc(folder: Path, age: int) -> str:
    """What a container's first process looks like when it is so old, in seconds; its name may be anything."""
    (folder / "1").mkdir()
    (folder / "uptime").write_text("50000.12 90000.00\n")
    before = " ".join(str(number) for number in range(4, 22))
    (folder / "1" / "stat").write_text(f"1 (a (b) c) S {before} {(50_000 - age) * 100} 9 9\n")
    return str(folder)


def test_several_are_healthy_when_each_is(backends: tuple[Backend, Backend]) -> None:
    ports = [str(one.port) for one in backends]
    assert check("/healthz", "200", *ports) == (0, [])
    assert [one.probes for one in backends] == [1, 1]


def test_each_that_is_not_is_named_by_its_port_and_no_other_one_is(backends: tuple[Backend, Backend]) -> None:
    one, two = backends
    two.healthy = False
    assert check("/healthz", "200", str(one.port), str(two.port)) == (1, [f"{two.port}: /healthz answers 503"])
    one.stop()
    code, lines = check("/healthz", "200", str(one.port), str(two.port))
    assert code == 1
    assert lines == [f"{one.port}: it does not listen on port {one.port}", f"{two.port}: /healthz answers 503"]


def test_anything_counts_for_a_server_that_knows_no_health(backends: tuple[Backend, Backend]) -> None:
    one, _ = backends
    one.healthy = False
    assert check("/healthz", "any", str(one.port)) == (0, [])


@pytest.mark.parametrize("count", [1, 2])
def test_a_server_of_a_young_container_is_waited_for_until_it_serves(tmp_path: Path, count: int) -> None:
    with socket.socket() as late:
        late.bind(("127.0.0.1", 0))
        port = str(late.getsockname()[1])
        asked: list[str] = []

        def serve() -> None:
            late.listen()
            while len(asked) < count + 2:
                caller, _ = late.accept()
                with caller, caller.makefile("rb") as lines:
                    if request := list(iter(lines.readline, b"\r\n" if lines.peek() else b"")):
                        asked.append(request[0].split()[1].decode())
                        status = b"200 OK" if len(asked) > 2 else b"503 Service Unavailable"
                        caller.sendall(b"HTTP/1.0 " + status + b"\r\n\r\n")

        first = threading.Timer(0.3, serve)
        first.start()
        assert check("/healthz", "200", *[port] * count, proc=write_proc(tmp_path, age=3)) == (0, [""])
        first.join()
    assert asked == ["/healthz"] * (count + 2)


def test_a_server_that_no_longer_listens_is_reported_at_once(tmp_path: Path) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port = bound.getsockname()[1]
        env = {**os.environ, "GYM_PROC": write_proc(tmp_path, age=121)}
        argv = ["bash", "-x", str(SCRIPT), "/healthz", "200", str(port)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120, env=env)
    assert (done.returncode, done.stdout) == (1, f"{port}: it does not listen on port {port}\n")
    assert "read -r -t 0.05" not in done.stderr
