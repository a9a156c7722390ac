"""A server that stops: seen at once, ended once nothing is in flight, and never before."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from gym import labels
from gym.http.pool import HttpClient
from gym.server import prompt_server, testing
from gym.server.prompt_server import PromptServer
from gym.server.testing import running

HOUR = 3600.0
# The signal comes once it serves and its loop sleeps. A tick would see the stop in an hour.
STOPS = """
import asyncio, os, signal, sys, threading
from pathlib import Path
if sys.argv[1] == "asyncio":
    sys.modules["uvloop"] = None
from gym.server import ResourcesServer, VerifyRequest, prompt_server
from gym.server.config import read_settings
from gym.server.serve import run_app

class Stops(ResourcesServer[None]):
    async def start(self):
        Path("loop").write_text(type(asyncio.get_running_loop()).__module__)

    async def stop(self):
        Path("stopped").touch()

    async def verify(self, rollout: VerifyRequest) -> float:
        return 1.0

serves = prompt_server.PromptServer.main_loop

async def main_loop(self):
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
    await serves(self)

prompt_server.PromptServer.main_loop = main_loop
prompt_server.TICK_SECONDS = 3600.0
run_app(Stops.app(), read_settings(os.environ))
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_signal_is_seen_though_no_tick_comes(tmp_path: Path, loop: str) -> None:
    env = os.environ | {labels.ENV_LISTEN: "127.0.0.1:0"}
    ended = subprocess.run([sys.executable, "-c", STOPS, loop], cwd=tmp_path, env=env, timeout=240, check=False)
    assert ended.returncode == 0
    assert (tmp_path / "loop").read_text().partition(".")[0] == loop
    assert (tmp_path / "stopped").exists()


class Working:
    """Answers when `go_on` is set."""

    def __init__(self) -> None:
        self.began, self.go_on, self.cancelled = asyncio.Event(), asyncio.Event(), False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while True:
                kind = (await receive())["type"]
                await send({"type": f"{kind}.complete"})
                if kind == "lifespan.shutdown":
                    return
        self.began.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]})
        await send({"type": "http.response.body", "body": b"done"})


async def test_a_stop_waits_for_the_request_that_is_in_flight() -> None:
    app, http = Working(), HttpClient()
    try:
        async with running(app) as url:
            asked = asyncio.create_task(http.request("GET", f"{url}/", timeout=120))
            await app.began.wait()
            asyncio.get_running_loop().call_soon(app.go_on.set)  # while it stops
        assert (await asked).body == b"done"
    finally:
        await http.aclose()
    assert not app.cancelled


async def test_a_request_that_takes_longer_than_the_stop_may_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "STOP_SECONDS", 0.05)
    app, http = Working(), HttpClient()
    try:
        async with running(app) as url:
            asked = asyncio.create_task(http.request("GET", f"{url}/", timeout=120))
            await app.began.wait()
        await asyncio.gather(asked, return_exceptions=True)
    finally:
        await http.aclose()
    assert app.cancelled


async def test_a_second_signal_ends_it_with_requests_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_server, "TICK_SECONDS", HOUR)
    server = PromptServer(uvicorn.Config(Working(), log_config=None))
    server.config.load()
    looping = asyncio.create_task(server.main_loop())
    await asyncio.sleep(0)
    server.handle_exit(signal.SIGINT, None)
    await looping
    server.handle_exit(signal.SIGINT, None)
    assert server.force_exit
