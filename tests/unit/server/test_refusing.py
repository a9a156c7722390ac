"""What pages of other sites can send is refused before an app hears of it; what programs send passes."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gym.http.pool import HttpClient, Reply
from gym.server.asgi import Receive, Scope, Send
from gym.server.refusing import MAX_KNOWN, Refusing, Rules
from gym.server.serve import is_loopback_socket
from gym.server.testing import running

JSON = {"content-type": "application/json"}


class App:
    """Counts what reaches it."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            for _ in range(2):
                await send({"type": f"{(await receive())['type']}.complete"})
            return
        self.heard.append(scope["path"])
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})


class Door:
    """The app behind its door, and raw requests to it."""

    def __init__(self, url: str, app: App) -> None:
        self.app = app
        self.port = int(url.rpartition(":")[2])

    def send(self, headers: dict[str, str], *, method: str = "POST", body: bytes = b"{}") -> int:
        """The status. What is not given is not sent, but for Host and a length."""
        usual = {"host": f"127.0.0.1:{self.port}", **({"content-length": str(len(body))} if body else {})}
        lines = [
            f"{method} /run HTTP/1.1",
            *(f"{name}: {value}" for name, value in {**usual, **headers}.items() if value or name == "origin"),
        ]
        with socket.create_connection(("127.0.0.1", self.port), timeout=120) as connection:
            connection.sendall("\r\n".join([*lines, "connection: close", "", ""]).encode() + body)
            return int(connection.makefile("rb").readline().split()[1])


async def opened(**options: Any) -> AsyncIterator[Door]:
    app = App()
    async with running(Refusing(app, "mcqa", **options)) as url:
        yield Door(url, app)


@pytest.fixture
async def door() -> AsyncIterator[Door]:
    async for one in opened(loopback=True):
        yield one


async def statuses(door: Door, *requests: dict[str, Any]) -> list[int]:
    return [await asyncio.to_thread(partial(door.send, **one)) for one in requests]


async def test_programs_pass(door: Door) -> None:
    own = f"http://localhost:{door.port}"
    requests: list[dict[str, Any]] = [
        {"headers": JSON},
        {"headers": {**JSON, "host": "localhost:9999"}},  # forwarded by ssh
        {"headers": {**JSON, "sec-fetch-mode": "cors"}},  # what fetch of Node says of itself
        {"headers": {"content-type": "application/x-ndjson"}},
        {"headers": {"content-length": "0"}, "body": b""},
        {"headers": {"content-length": "0", "content-type": "application/x-www-form-urlencoded"}, "body": b""},
        {"headers": {}, "method": "GET", "body": b""},
        {"headers": {**JSON, "origin": own, "host": f"localhost:{door.port}", "sec-fetch-site": "same-origin"}},
        {"headers": {**JSON, "origin": "http://gym.example", "x-forwarded-host": "gym.example"}},  # by the router
    ]
    assert await statuses(door, *requests) == [200] * len(requests)


async def test_pages_of_other_sites_do_not(door: Door) -> None:
    origins = ("http://evil.example", "null", "", f"http://evil.localhost:{door.port}", "http://127.0.0.1:1")
    requests: list[dict[str, Any]] = [{"headers": {**JSON, "origin": origin}} for origin in origins]
    requests += [
        {"headers": {"origin": origin}, "method": method, "body": b""}
        for origin in origins
        for method in ("GET", "OPTIONS")
    ]
    requests += [
        {"headers": {"sec-fetch-site": site}, "method": "GET", "body": b""} for site in ("cross-site", "same-site")
    ]
    requests += [
        {"headers": {"host": host, **JSON}} for host in ("evil.example", f"evil.example:{door.port}", "router")
    ]
    assert await statuses(door, *requests) == [403] * len(requests)
    assert door.app.heard == []


async def test_bodies_that_do_not_say_that_they_are_json_do_not(door: Door) -> None:
    kinds = (
        "text/plain",
        "text/plain; application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
    )
    requests: list[dict[str, Any]] = [{"headers": {"content-type": kind}} for kind in kinds]
    requests += [{"headers": {}}, {"headers": {}, "method": "PUT"}, {"headers": {"content-length": "002"}}]
    chunked = {"transfer-encoding": "chunked", "content-length": ""}
    requests.append({"headers": chunked, "body": b"2\r\n{}\r\n0\r\n\r\n"})
    assert await statuses(door, *requests) == [415] * len(requests)
    assert door.app.heard == []


async def test_a_refusal_is_a_failure_of_the_contract_that_says_what_to_type(door: Door) -> None:
    client = HttpClient()
    reply: Reply = await client.request(
        "POST", f"http://127.0.0.1:{door.port}/run", body=b"x", headers=[(b"content-type", b"text/plain")], timeout=120
    )
    await client.aclose()
    error = json.loads(reply.body)["error"]
    assert (error["kind"], error["server"], error["retryable"]) == ("row", "mcqa", False)
    assert "Content-Type: text/plain. Add -H 'content-type: application/json'" in error["message"]


async def test_bound_wider_a_name_that_was_made_to_mean_its_address_does_not_lead_here() -> None:
    """DNS rebinding: the page's own name, as Host and as Origin."""
    good = ("172.18.0.4:8000", "[fd00::4]:8000", "localhost:8000", "demo-mcqa-1:8000", "mcqa", "host.docker.internal")
    named = ("gym.example:8000", "GYM.example.", "mcqa.stack.svc.cluster.local:8000")
    bad = ("evil.example:8000", "evil.example", "172.18.0.4.evil.example", "gym.example.evil", "cluster.local", "x y")
    async for wide in opened(loopback=False, hosts=("gym.example", ".svc.cluster.local")):
        requests = [{"headers": {**JSON, "host": host}} for host in (*good, *named, *bad)]
        assert await statuses(wide, *requests) == [200] * (len(good) + len(named)) + [403] * len(bad)
        pages = [{"headers": {**JSON, "host": host, "origin": f"http://{host}"}} for host in (good[0], *bad)]
        assert await statuses(wide, *pages) == [200] + [403] * len(bad)
        assert await statuses(wide, {"headers": {**JSON, "origin": "http://evil.example"}}) == [403]


async def test_where_any_name_may_lead_or_a_token_is_asked_for_names_do_not_matter() -> None:
    headers = {**JSON, "host": "evil.example"}
    for options in ({"hosts": ("*",)}, {"rules": Rules(tokens=True)}):
        async for wide in opened(loopback=False, **options):
            assert await statuses(wide, {"headers": headers}) == [200]


async def test_a_console_is_asked_by_an_address_or_by_its_own_name() -> None:
    async for near in opened(loopback=False, rules=Rules(near=True)):
        requests = [
            {"headers": {**JSON, "host": host}} for host in ("mcqa:8000", "172.18.0.4:8000", "evil.example:8000")
        ]
        assert await statuses(near, *requests) == [200, 200, 403]


async def test_a_server_that_is_asked_by_a_name_it_was_not_given_says_how_to_give_it() -> None:
    async for wide in opened(loopback=False):
        client = HttpClient()
        headers = [(b"host", b"node-1.cluster.example")]
        reply = await client.request("POST", f"http://127.0.0.1:{wide.port}/run", headers=headers, timeout=120)
        await client.aclose()
        assert "GYM_HOSTS=node-1.cluster.example" in json.loads(reply.body)["error"]["message"]


async def test_what_was_found_good_is_remembered_within_bounds(door: Door) -> None:
    names = [{"headers": {**JSON, "host": f"a{number}.localhost"}} for number in range(MAX_KNOWN + 9)]
    assert set(await statuses(door, *names)) == {200}
    assert await statuses(door, {"headers": {**JSON, "host": "evil.example"}}) == [403]


def test_a_server_knows_whether_its_socket_is_this_machine_s_alone() -> None:
    for host, expected in (("127.0.0.1", True), ("0.0.0.0", False)):
        with socket.create_server((host, 0)) as listener:
            assert is_loopback_socket(listener) is expected


def test_every_app_under_serve_has_the_door(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("from gym.server import ResourcesServer\napp = ResourcesServer.app()\n")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        environ = {"GYM_LISTEN": f"fd:{listener.fileno()}", "NEMO_GYM_CONFIG_PATH": "mine"}
        config = json.dumps({"mine": {"resources_servers": {"mine": {"entrypoint": "app.py"}}}})
        process = subprocess.Popen(
            [sys.executable, "-m", "gym.server.serve", str(tmp_path / "app.py")],
            env={**environ, "NEMO_GYM_CONFIG_DICT": config},
            pass_fds=(listener.fileno(),),
        )
        door = Door(f"http://127.0.0.1:{listener.getsockname()[1]}", App())
    try:
        for path_headers in (
            {"host": "evil.example"},
            {"origin": "http://evil.example"},
            {"sec-fetch-site": "cross-site"},
        ):
            assert door.send(path_headers, method="GET", body=b"") == 403
        assert door.send({"content-type": "text/plain"}) == 415
        assert door.send({}, method="GET", body=b"") == 404
    finally:
        process.terminate()
        process.wait(120)
