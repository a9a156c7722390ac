"""What pages of other sites try in a real browser: none of it reaches a server of the stack."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gym.files import write_atomically
from gym.plan.model import Plan
from tests.support import router as support
from tests.support.browser import CHROMIUM, Site, open_browser, read_page
from tests.support.router import Backend, Router, ask, eventually, router, service

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not CHROMIUM, reason="no Chromium on the PATH")]
MODEL = service("policy_model", type="responses_api_models", implementation="openai_model")
FOREIGN_IMAGE = service("foreign", launch="image")
PAGE = Path(__file__).with_name("page.html")
# Says on a line of a file what reached it, as any app under `serve` might.
APP = """
import os
async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        return await send({"type": "lifespan.shutdown.complete"})
    with open(os.environ["SEEN"], "a") as file:
        file.write(f"{scope['method']} {scope['path']}\\n")
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"secret rollouts"})
"""


@pytest.fixture
def upstream() -> Iterator[Backend]:
    made = Backend("model")
    yield made
    made.stop()


@pytest.fixture
def stack(tmp_path: Path, upstream: Backend) -> Iterator[Router]:
    services = (MODEL, FOREIGN_IMAGE)
    with (
        support.console(tmp_path, Plan(stack="test", services=services)) as console,
        router(tmp_path / "router", services, {one.name: [upstream.url] for one in services}, console) as running,
    ):
        write_atomically(tmp_path / "discovery.json", (running.home / "discovery.json").read_text())
        eventually(lambda: ask(running.url, "/servers").status == 200, what="the console")
        yield running


@pytest.mark.parametrize("host", ["localhost", "evil.localhost", "evil.example"])
def test_a_foreign_page_reaches_no_server_by_any_means_of_a_browser(
    host: str, stack: Router, upstream: Backend, tmp_path: Path
) -> None:
    port = stack.url.rpartition(":")[2]
    below = ("/s/policy_model/v1/responses", "/s/foreign/v1/responses", "/rollouts")
    with serving(tmp_path) as (direct, seen):
        targets = [*(f"http://localhost:{port}{path}" for path in below), f"http://localhost:{direct}/v1/responses"]
        outcomes = attack(host, targets, tmp_path)
        assert len(outcomes) == 4 * 17
        assert upstream.paths() == []
        assert seen.read_text() == "ready\n"
        assert not [name for name, what in outcomes.items() if "secret" in what or "backend" in what or "200" in what]
        assert not [name for name, what in outcomes.items() if name.startswith(("socket", "events")) and "open" in what]
    answered = eventually(lambda: statuses(stack, below), what="the last line of the access log")
    assert set(answered) <= {403, 415}


def test_a_page_that_points_its_name_here_reads_nothing(stack: Router, upstream: Backend, tmp_path: Path) -> None:
    """As after DNS rebinding: the browser takes the stack for the page's own site."""
    resolver = "--host-resolver-rules=MAP evil.example 127.0.0.1"
    port = stack.url.rpartition(":")[2]
    with serving(tmp_path) as (direct, seen):
        for at in (f"{port}/servers", f"{port}/s/policy_model/x", f"{port}/metrics", f"{direct}/rollouts"):
            shown = read_page(f"http://evil.example:{at}", tmp_path / "profile", resolver)
            assert "this stack listens to this machine alone" in shown
        assert seen.read_text() == "ready\n"
    assert upstream.paths() == []


def test_the_stack_s_own_pages_still_work(stack: Router, tmp_path: Path) -> None:
    port = stack.url.rpartition(":")[2]
    for name in ("localhost", "127.0.0.1", "gym.localhost"):
        shown = read_page(f"http://{name}:{port}/", tmp_path / "profile")
        text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", shown.partition("<body>")[2].partition("<script>")[0]))
        assert re.search(r"all healthy 2 servers, 2 replicas, .* as of \d", text)


def test_a_page_of_the_stack_s_own_may_ask_its_servers(stack: Router, upstream: Backend, tmp_path: Path) -> None:
    """The docs of a server send from where they were read."""
    page = "<script>fetch('/s/policy_model/run', {method: 'POST', body: '{}', headers: {'content-type': "
    page += "'application/json'}}).then((reply) => { document.title = `got ${reply.status}` })</script>"
    upstream.pages["/docs"] = page.encode()
    shown = read_page(f"{stack.url}/s/policy_model/docs", tmp_path / "profile")
    assert "got 200" in shown
    assert upstream.paths() == ["/docs", "/run"]


def statuses(stack: Router, paths: tuple[str, ...]) -> list[int]:
    """How each was answered last; none as long as the log does not have them all."""
    answered = {one["RequestPath"].partition("?")[0]: one["DownstreamStatus"] for one in stack.access()}
    return [answered[path] for path in paths] if answered.keys() >= set(paths) else []


def attack(host: str, targets: list[str], folder: Path) -> dict[str, str]:
    site = Site(PAGE, targets)
    resolver = "--host-resolver-rules=MAP evil.example 127.0.0.1"
    try:
        with open_browser(f"http://{host}:{site.port}/", folder / "profile", resolver):
            assert site.done.wait(400), (folder / "browser.log").read_text()[-2000:]
    finally:
        site.stop()
    return site.found


@contextmanager
def serving(folder: Path) -> Iterator[tuple[int, Path]]:
    """An app as the local runtime serves it: a loopback port of its own."""
    (folder / "app.py").write_text(APP)
    seen = folder / "seen"
    seen.write_text("ready\n")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        variables = {"GYM_LISTEN": f"fd:{listener.fileno()}", "NEMO_GYM_CONFIG_PATH": "direct", "SEEN": str(seen)}
        config = json.dumps({"direct": {"resources_servers": {"direct": {}}}})
        command = [sys.executable, "-m", "gym.server.serve", str(folder / "app.py")]
        environ = {**os.environ, **variables, "NEMO_GYM_CONFIG_DICT": config}
        process = subprocess.Popen(command, env=environ, pass_fds=(listener.fileno(),))
        port = listener.getsockname()[1]
    try:
        yield port, seen
    finally:
        process.terminate()
        process.wait(120)
