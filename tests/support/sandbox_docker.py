"""Sandboxes of a stack of the test's own on the engine that is there; all of it is gone when the test ends."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gym.broker.channel.channel import PipeChannel
from gym.broker.provider import EgressGate, Tags
from gym.broker.providers.docker.docker_provider import Docker
from gym.broker.providers.docker.docker_sandbox import DockerSandbox
from gym.broker.providers.docker.engine_client import EngineClient
from gym.wire.sandbox import ExecRequest, ExecResult, SandboxSpec
from tests.support.docker import need_engine

IMAGE = "python:3.13-slim"
Serve = Callable[[str, asyncio.StreamWriter], Awaitable[None]]
VERSION = {"ApiVersion": "1.45", "MinAPIVersion": "1.24", "Version": "26.1.5"}


class DockerHarness:
    """A provider and one stack."""

    def __init__(self, docker: Docker) -> None:
        self.docker = docker
        self.stack = f"test-{secrets.token_hex(4)}"

    def tags(self, name: str = "", **fields: Any) -> Tags:
        one = f"{name or 'sandbox'}-{secrets.token_hex(4)}"
        return Tags(one, self.stack, "instance", "owner", expires=time.time() + 600)._replace(**fields)

    async def make(self, image: str = IMAGE, **fields: Any) -> DockerSandbox:
        return await self.docker.create(SandboxSpec(image=image, **fields), self.tags())

    async def containers(self) -> list[dict[str, Any]]:
        query: dict[str, str | bool] = {"all": True, "filters": f'{{"label":["gym.stack={self.stack}"]}}'}
        found: list[dict[str, Any]] = await self.docker.engine.call("GET", "/containers/json", query, doing="list")
        return found

    async def images(self) -> list[str]:
        query = {"filters": f'{{"label":["gym.stack={self.stack}"]}}'}
        found = await self.docker.engine.call("GET", "/images/json", query, doing="list")
        return [name for one in found for name in one["RepoTags"] or [one["Id"]]]


@asynccontextmanager
async def docker_harness(gate: EgressGate | None = None) -> AsyncIterator[DockerHarness]:
    docker = Docker(need_engine(), gate=gate)
    await docker.open()
    one = DockerHarness(docker)
    try:
        yield one
    finally:
        await one.docker.sweep(one.stack, frozenset())
        await one.docker.close()


async def run(sandbox: DockerSandbox | PipeChannel, line: str, **fields: Any) -> ExecResult:
    channel = sandbox.channel if isinstance(sandbox, DockerSandbox) else sandbox
    return await channel.exec(ExecRequest(shell=line, **fields))


async def say(sandbox: DockerSandbox | PipeChannel, line: str, **fields: Any) -> str:
    """Its output, of a command that has to go well."""
    result = await run(sandbox, line, **fields)
    assert result.ok, f"{line}: {result}"
    return result.stdout.text.strip()


@asynccontextmanager
async def engine_that(serve: Serve, folder: Path, version: dict[str, str] | None = None) -> AsyncIterator[EngineClient]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                line = head.splitlines()[0]
                length = [row.split(":")[1] for row in head.lower().splitlines() if row.startswith("content-length")]
                await reader.readexactly(int(length[0]) if length else 0)
                if line.split()[1].endswith("/version"):
                    reply(writer, 200, version or VERSION)
                else:
                    await serve(line, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            pass
        finally:
            writer.close()

    path = folder / "s"
    server = await asyncio.start_unix_server(answer, path)
    async with server:
        engine = EngineClient(f"unix://{path}")
        try:
            yield engine
        finally:
            await engine.aclose()


def reply(writer: asyncio.StreamWriter, status: int, value: object) -> None:
    body = json.dumps(value).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
