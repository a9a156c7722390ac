"""Jobs and shells of a sandbox as a server holds them, and what they need of the broker's client."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from typing import Any, Final, Protocol, Self

import orjson

from gym.http.pool import Reply
from gym.http.streams import Incoming, Pieces
from gym.wire.failures import RolloutError
from gym.wire.sandbox import ExecResult, JobInfo, from_bytes, to_bytes

MARGIN: Final = 60.0  # beyond a command's own timeout: for its turn, and for the reply
FIRST_LOOK, LONGEST_LOOK = 0.02, 1.0


class SandboxClient(Protocol):
    """How a sandbox reaches its broker; `gym.sandbox.broker_client.Sandboxes` fits."""

    async def call(
        self, method: str, path: str, body: Any = None, *, timeout: float = ..., request_id: str = ""
    ) -> Reply: ...

    def ndjson(
        self, path: str, body: bytes, *, seconds: float | None, method: str = "POST"
    ) -> AsyncGenerator[Any, None]: ...

    def streaming(
        self, method: str, path: str, headers: Sequence[tuple[bytes, bytes]] = (), body: Pieces | bytes = b""
    ) -> AbstractAsyncContextManager[Incoming]: ...

    def later(self, work: Coroutine[Any, Any, Any]) -> None: ...

    async def fork(self, parent: str, *, rollout: str = "", timeout: float = ...) -> Any: ...

    async def remove(self, sandbox: str) -> None: ...

    def key_of(self, sandbox: str) -> str: ...


class SandboxJob:
    """A command that runs in the background."""

    def __init__(self, client: SandboxClient, path: str, info: JobInfo) -> None:
        self._client = client
        self.info = info
        self.id = info.id
        self._path = f"{path}/jobs/{info.id}"

    async def inspect(self) -> JobInfo:
        self.info = JobInfo.model_validate_json((await self._client.call("GET", self._path)).body)
        return self.info

    async def wait(self, timeout: float) -> ExecResult:
        """Its result. Raises kind `timeout` when it still runs after `timeout` seconds; it is not killed."""
        loop = asyncio.get_running_loop()
        deadline, delay = loop.time() + timeout, FIRST_LOOK
        while (info := await self.inspect()).state == "running":
            if loop.time() >= deadline:
                raise RolloutError("timeout", f"job {self.id} still runs after {timeout:g} s", server="sandbox")
            await asyncio.sleep(delay)
            delay = min(delay * 2, LONGEST_LOOK)
        if info.state == "lost" or info.result is None:
            raise RolloutError("sandbox", f"job {self.id} is lost with its sandbox", server="sandbox")
        return info.result

    async def follow(self) -> AsyncIterator[tuple[int, bytes]]:
        """Everything it wrote and writes, until it ends."""
        path = f"{self._path}/output?follow=1"
        async with aclosing(self._client.ndjson(path, b"", seconds=None, method="GET")) as lines:
            async for line in lines:
                if "stream" in line:
                    yield int(line["stream"]), to_bytes(line["data"])

    async def write(self, data: bytes = b"", *, close: bool = False) -> None:
        body = {"data": from_bytes(data), "close": close}
        await self._client.call("POST", f"{self._path}/stdin", body)

    async def kill(self, signal: int = 9) -> None:
        await self._client.call("POST", f"{self._path}/kill", {"signal": signal})


class Shell:
    """One command after the other; `ended` when the shell itself went."""

    def __init__(self, client: SandboxClient, path: str) -> None:
        self._client = client
        self._path = path
        self.ended = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run(self, command: str, *, timeout: float = 60.0, max_output: int = 1 << 20) -> ExecResult:
        body = {"command": command, "timeout": timeout, "max_output": max_output}
        reply = await self._client.call(
            "POST", self._path, body, timeout=timeout + MARGIN, request_id=secrets.token_hex(12)
        )
        fields = orjson.loads(reply.body)
        self.ended = bool(fields.get("shell_ended"))
        return ExecResult.model_validate(fields)

    async def close(self) -> None:
        try:
            await self._client.call("DELETE", self._path)
        except RolloutError as error:
            if error.status not in (404, 410):
                raise
        self.ended = True
