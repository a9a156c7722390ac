"""A real registry process on loopback: Debian's docker-registry."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.docker import engine_client, eventually, need_engine


def ask(registry: str, path: str) -> bytes:
    host, _, port = registry.partition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().read()
    finally:
        connection.close()


@contextmanager
def registry_in(folder: Path, *, closed: bool = False) -> Iterator[str]:
    """`127.0.0.1:PORT`: the engine asks no certificate of a registry on loopback. `closed`: it lets no user in."""
    need_engine()
    program = shutil.which("docker-registry")
    if program is None:
        assert not os.environ.get("GYM_REQUIRE_DOCKER"), "no docker-registry on the PATH"
        pytest.skip("no docker-registry on the PATH (Debian: apt-get install docker-registry)")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = folder / f"registry-{port}.yml"
    config.write_text(json.dumps(_config(folder, port, closed=closed)))
    with (folder / f"registry-{port}.log").open("wb") as log:
        process = subprocess.Popen([program, "serve", str(config)], stdout=log, stderr=log)
    try:
        eventually(lambda: _answers(f"127.0.0.1:{port}"), bool)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(120)


def remove_references(registry: str) -> None:
    """Of a registry: the names of images on the engine, and of what was unpacked from them."""
    with engine_client() as client:
        for image in client.api.images():
            names = image.get("RepoTags") or ()
            if any(one.startswith(f"{registry}/") for one in names):
                for one in names:
                    if one.startswith((f"{registry}/", "gym-pack-")):
                        client.api.remove_image(one)


def _config(folder: Path, port: int, *, closed: bool) -> dict[str, object]:
    storage = {"filesystem": {"rootdirectory": str(folder / f"registry-{port}")}, "delete": {"enabled": True}}
    config: dict[str, object] = {"version": "0.1", "storage": storage, "http": {"addr": f"127.0.0.1:{port}"}}
    if closed:
        users = folder / f"users-{port}"
        users.write_text("")
        config["auth"] = {"htpasswd": {"realm": "closed", "path": str(users)}}
    return config


def _answers(registry: str) -> bool:
    try:
        return bool(ask(registry, "/v2/"))
    except OSError:
        return False
