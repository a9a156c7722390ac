"""mcp_bridge with real MCP servers: on both majors of the `mcp` package, each in its own environment, and from npm."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from gym.server.testing import Answered, Caller, running
from gym.wire.items import message, response
from tests.support.shipped import shipped_app

SERVER = Path(__file__).parents[1] / "support" / "mcp_server.py"
UV = Path(sys.executable).with_name("uv")
VERSIONS = {"1": "mcp>=1.26,<2", "2": "mcp>=2,<3"}
ROW = {"responses_create_params": {"input": "Add."}, "expected_calls": [{"name": "add", "arguments": {"a": 2, "b": 3}}]}
DONE = {"response": response([message("5")], model="m")}


@pytest.fixture(scope="module", params=list(VERSIONS))
def python(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A major of the package, and the Python that has it."""
    folder = tmp_path_factory.mktemp("mcp") / "env"
    found = str(folder / "bin" / "python")
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    subprocess.run([UV, "pip", "install", "--quiet", "--python", found, VERSIONS[request.param]], check=True)
    return request.param, found


@asynccontextmanager
async def bridged(**fields: Any) -> AsyncIterator[Caller]:
    with shipped_app("mcp_bridge", start_seconds=120.0, **{"verify": {"calls": "made"}, **fields}) as app:
        async with running(app) as url, Caller(url) as caller:
            yield caller


async def use_numbers(caller: Caller, major: str) -> None:
    seeded = (await caller.post("/seed_session", ROW)).body
    (add,) = (one for one in seeded["tools"] if one["name"] == "add")
    assert add["parameters"]["required"] == ["a", "b"]
    assert (await caller.post("/major")).body == f"mcp {major}".encode()
    assert (await caller.post("/add", {"a": 2, "b": 3})).body == 5
    assert (await caller.post("/divide", {"a": 1, "b": 4})).body == {"quotient": 0.25}
    for arguments in ({"a": 1, "b": 0}, {"a": "one", "b": 2}, {}):
        assert "error" in (await caller.post("/divide", arguments)).body
    assert (await caller.post("/verify", ROW | DONE)).body["reward"] == 1.0


async def test_a_server_on_either_major_of_mcp_is_bridged_over_stdio(python: tuple[str, str]) -> None:
    major, program = python
    async with bridged(command=[program, str(SERVER), "stdio"]) as caller:
        await use_numbers(caller, major)


async def test_a_server_on_either_major_of_mcp_is_bridged_over_http_and_its_end_is_a_failure(
    python: tuple[str, str],
) -> None:
    major, program = python
    with serving(program) as (process, port):
        await listens(port)
        async with bridged(url=f"http://127.0.0.1:{port}/mcp") as caller:
            await use_numbers(caller, major)
            async with Caller(caller.url) as late:
                await caller.post("/seed_session", ROW)
                await late.post("/seed_session", ROW)
                process.kill()
                process.wait()
                assert_lost(await caller.post("/add", {"a": 2, "b": 3}), "cannot be reached")
                with serving(program, port):
                    await listens(port)
                    assert_lost(await late.post("/add", {"a": 2, "b": 3}), "has forgotten this session")


def assert_lost(reply: Answered, words: str) -> None:
    assert (reply.status, reply.body["error"]["kind"], reply.body["error"]["retryable"]) == (500, "resources", True)
    assert words in reply.body["error"]["message"]


@pytest.mark.long
@pytest.mark.skipif(shutil.which("npx") is None, reason="no npx here")
async def test_a_server_of_npm_is_bridged_as_it_is() -> None:
    command = ["npx", "-y", "@modelcontextprotocol/server-filesystem", "{folder}"]
    row = ROW | {"expected_calls": [{"name": "write_file", "arguments": {"path": "a.txt", "content": "hello"}}]}
    async with bridged(command=command, allow=["write_file", "read_text_file"]) as caller:
        seeded = (await caller.post("/seed_session", row)).body
        assert {one["name"] for one in seeded["tools"]} == {"write_file", "read_text_file"}
        await caller.post("/write_file", {"path": "a.txt", "content": "hello"})
        assert "hello" in str((await caller.post("/read_text_file", {"path": "a.txt"})).body)
        assert "error" in (await caller.post("/read_text_file", {"path": "/etc/passwd"})).body
        assert (await caller.post("/verify", row | DONE)).body["reward"] == 1.0


@contextmanager
def serving(program: str, port: int = 0) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    if not port:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([program, str(SERVER), "http", str(port)], stdout=quiet, stderr=quiet)
    try:
        yield process, port
    finally:
        process.kill()
        process.wait()


async def listens(port: int) -> None:
    async with asyncio.timeout(120):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
                continue
            writer.close()
            await writer.wait_closed()
            return
