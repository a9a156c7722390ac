"""Which engine would be used, whether it is fit, and what a user hears when it is not. Real sockets, small servers."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gym import engine
from gym.engine import engine_answers, engine_host, require_engine
from gym.errors import InfraError


@contextmanager
def engine_of_version(path: Path, version: str) -> Iterator[str]:
    """Answers every request as an engine's `/version` does."""
    body = json.dumps({"Version": version}).encode()
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                with peer:
                    peer.recv(4096)
                    peer.sendall(reply)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"unix://{path}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


@pytest.fixture
def compose(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A `docker` on the PATH whose Compose says what the file beside it holds."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "version").write_text("2.40.3\n")
    (folder / "docker").write_text(f'#!/bin/sh\nexec cat "{folder}/version"\n')
    (folder / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    engine._compose_version.cache_clear()
    yield folder / "version"
    engine._compose_version.cache_clear()


def test_an_engine_that_is_new_enough_is_taken(tmp_path: Path, compose: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with engine_of_version(tmp_path / "s", "28.5.2") as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        assert engine_answers() == engine.EngineFacts("28.5.2", "2.40.3", host)


def test_an_old_engine_is_refused_with_both_ways_out(
    tmp_path: Path, compose: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine_of_version(tmp_path / "s", "20.10.24") as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        assert engine_answers() is None
        with pytest.raises(InfraError, match=r"Docker 20\.10\.24; 25 is the oldest") as caught:
            require_engine()
        assert "--runtime local" in caught.value.hint


@pytest.mark.parametrize(("version", "words"), [("1.29.2", "is 1.29.2"), ("", "is not installed")])
def test_an_old_or_missing_compose_is_refused(
    tmp_path: Path, compose: Path, monkeypatch: pytest.MonkeyPatch, version: str, words: str
) -> None:
    compose.write_text(version)
    with engine_of_version(tmp_path / "s", "28.5.2") as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        with pytest.raises(InfraError, match=words):
            require_engine()


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo \"docker: 'compose' is not a docker command.\" >&2; exit 1", "is not installed"),
        ("echo 'unknown shorthand flag: -s' >&2; exit 125", "is not installed"),
        ("echo 'fatal: out of memory' >&2; exit 2", "exit code 2: fatal: out of memory"),
        ("exit 1", "exit code 1: nothing"),
        ("exec sleep 600", "gave no answer within 0.2 s"),
    ],
)
def test_a_compose_that_gives_no_version_is_reported_as_what_it_did(
    tmp_path: Path, compose: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    (compose.parent / "docker").write_text(f"#!/bin/sh\n{script}\n")
    monkeypatch.setattr(engine, "COMPOSE_SECONDS", 0.2 if "sleep" in script else 60.0)
    with engine_of_version(tmp_path / "s", "28.5.2") as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        with pytest.raises(InfraError, match=words):
            require_engine()


def test_a_machine_without_the_docker_command_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine._compose_version.cache_clear()
    with engine_of_version(tmp_path / "s", "28.5.2") as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        monkeypatch.setenv("PATH", str(tmp_path))
        with pytest.raises(InfraError, match="no `docker` command"):
            require_engine()


def test_no_engine_at_all_is_one_paragraph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing")
    assert engine_answers() is None
    with pytest.raises(InfraError, match="No such file or directory"):
        require_engine()


def test_a_socket_that_this_user_may_not_open_names_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, seconds: float) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(engine, "_ask_socket", refuse)  # root may open every socket, and tests may run as root
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/x")
    with pytest.raises(InfraError, match="may not open it") as caught:
        require_engine()
    assert "usermod -aG docker" in caught.value.hint


def test_a_thing_that_is_no_engine_is_no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "s"))
        silent.listen()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/s")
        monkeypatch.setattr(engine, "QUICK_TIMEOUT", 0.05)
        assert engine_answers() is None


def test_the_context_of_the_docker_command_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meta = tmp_path / "contexts" / "meta" / "0a1b"
    meta.mkdir(parents=True)
    endpoint = {"Name": "colima", "Endpoints": {"docker": {"Host": "unix:///home/ada/.colima/docker.sock"}}}
    (meta / "meta.json").write_text(json.dumps(endpoint))
    (tmp_path / "config.json").write_text(json.dumps({"currentContext": "colima"}))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.delenv("DOCKER_CONTEXT", raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert engine_host() == "unix:///home/ada/.colima/docker.sock"
    monkeypatch.setenv("DOCKER_CONTEXT", "default")
    assert engine_host() == "unix:///var/run/docker.sock"
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.1:2375")
    assert engine_host() == "tcp://10.0.0.1:2375"
    (tmp_path / "config.json").write_text("not JSON")
    monkeypatch.delenv("DOCKER_HOST")
    monkeypatch.delenv("DOCKER_CONTEXT")
    assert engine_host() == "unix:///var/run/docker.sock"


@pytest.mark.parametrize("host", ["ssh://ada@far.example.org", "tcp://10.0.0.1:2375"])
def test_an_engine_on_another_machine_is_not_used_and_the_way_there_is_reported(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compose would make empty folders there in the place of our files."""
    monkeypatch.setenv("DOCKER_HOST", host)
    assert engine_answers() is None
    with pytest.raises(InfraError, match="on another machine") as caught:
        require_engine()
    assert "gym save" in caught.value.hint
