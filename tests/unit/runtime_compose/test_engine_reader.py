"""The engine's API as `gym ps` reads it: a real unix socket, a small server."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest

from gym import labels
from gym.errors import InfraError
from gym.runtime.compose.containers import Container
from gym.runtime.compose.engine_reader import OLDEST_API, EngineReader

LISTED = {
    "Id": "c1",
    "Names": ["/gym-eval-1-mcqa-1"],
    "State": "running",
    "Status": "Up 2 minutes (healthy)",
    "Image": "mcqa",
    "ImageID": "sha256:1",
    "Labels": {
        labels.INSTANCE: "mcqa",
        "com.docker.compose.project": "gym-eval-1",
        "com.docker.compose.service": "mcqa",
        "com.docker.compose.container-number": "1",
    },
}
FACTS = {"State": {"Status": "running", "StartedAt": "2024-05-01T10:00:00.5Z"}, "RestartCount": 3}


@contextmanager
def engine(path: Path, replies: Mapping[str, tuple[int, Any]]) -> Iterator[tuple[EngineReader, list[str]]]:
    asked: list[str] = []

    class Api(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            status, document = replies.get(urlsplit(self.path).path.removeprefix(f"/{OLDEST_API}"), (404, {}))
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def address_string(self) -> str:
            return "unix"

        def log_message(self, format: str, *args: Any) -> None:
            """Tests print nothing."""

    with socketserver.ThreadingUnixStreamServer(str(path), Api) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield EngineReader(f"unix://{path}"), asked
        server.shutdown()
        thread.join()


def test_containers_are_asked_for_by_their_labels_and_read(tmp_path: Path) -> None:
    with engine(tmp_path / "s", {"/containers/json": (200, [LISTED])}) as (reader, asked):
        (found,) = reader.containers("a=1", "b")
    assert (found.instance, found.number, found.health, found.state) == ("mcqa", 1, "healthy", "running")
    query = parse_qs(urlsplit(asked[0]).query)
    assert (query["all"], json.loads(query["filters"][0])) == (["1"], {"label": ["a=1", "b"]})


def test_a_container_whose_labels_are_those_of_its_image_is_not_ours(tmp_path: Path) -> None:
    copied = {
        **LISTED,
        "Names": ["/build-step"],
        "Labels": {**cast(Any, LISTED["Labels"]), "com.docker.compose.config-hash": "h"},
    }
    image = {"Config": {"Labels": {"com.docker.compose.config-hash": "h"}}}
    replies = {"/containers/json": (200, [copied]), "/images/sha256:1/json": (200, image)}
    with engine(tmp_path / "s", replies) as (reader, asked):
        assert reader.containers("a=1") == []
    assert len(asked) == 2


def test_what_an_inspection_says_and_that_a_container_is_gone(tmp_path: Path) -> None:
    with engine(tmp_path / "s", {"/containers/c1/json": (200, FACTS)}) as (reader, _):
        found = reader.inspect(Container(id="c1", name="one", state="running"))
        assert found is not None
        assert (found.restarts, found.running, found.started_at) == (3, True, 1714557600.0)
        assert reader.inspect(Container(id="c2", name="two", state="running")) is None


def test_an_engine_that_cannot_say_is_an_error_with_its_words(tmp_path: Path) -> None:
    with (
        engine(tmp_path / "s", {"/containers/json": (500, {"message": "database is locked"})}) as (reader, _),
        pytest.raises(InfraError, match="answers 500.*database is locked"),
    ):
        reader.containers("a")
    with pytest.raises(InfraError, match="did not answer"):
        EngineReader(f"unix://{tmp_path}/none").containers("a")
