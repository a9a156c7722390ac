"""A proxy before a model's endpoint, in a thread of its own: it refuses, fails, dawdles or breaks off on request."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from gym.chaos.chaos_setup import Fault, ModelProxy, draw_seconds
from gym.errors import InfraError
from gym.http.pool import HttpClient, Reply

LONGEST: Final = 5.0
SLOW_SECONDS: Final = 3.0
MAX_HEAD: Final = 64 * 1024
MODES: Final = ("model-429", "model-500", "model-garbage", "model-slow", "model-torn")
KEPT_BACK: Final = frozenset((b"host", b"connection", b"content-length", b"transfer-encoding", b"keep-alive"))
BAD: Final = {
    "model-429": Reply(429, [(b"retry-after", b"1")], b'{"error": {"message": "chaos: too many requests"}}'),
    "model-500": Reply(500, [], b'{"error": {"message": "chaos: it failed"}}'),
    "model-garbage": Reply(200, [(b"content-type", b"application/json")], b'{"id": "chaos", \x00\xff <html>'),
}


class FaultyModel:
    """`mode` is one of MODES, or "": then it passes on what it gets."""

    def __init__(self, proxy: ModelProxy, chance: random.Random) -> None:
        self.mode = ""
        self.calls = 0
        self.spoilt = 0
        self._url = proxy.url.rstrip("/")
        self._chance = chance
        self._client = HttpClient(asks_health=False)
        self._open: dict[asyncio.StreamWriter, asyncio.Task[None] | None] = {}

    def faults(self) -> list[Fault]:
        return [Fault(mode, ("model",), lambda _, mode=mode: self._spoil(mode)) for mode in MODES]  # type: ignore[misc]

    def _spoil(self, mode: str) -> None:
        self.mode = mode
        try:
            time.sleep(draw_seconds(self._chance, LONGEST))
        finally:
            self.mode = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: a request, its reply, the next."""
        self._open[writer] = asyncio.current_task()
        try:
            await self._converse(reader, writer)
        finally:
            writer.close()
            del self._open[writer]

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, EOFError, ValueError, asyncio.LimitOverrunError):
            while True:
                method, path, headers = _parse(await reader.readuntil(b"\r\n\r\n"))
                body = await reader.readexactly(int(dict(headers).get(b"content-length", b"0")))
                mode, self.calls = self.mode, self.calls + 1
                self.spoilt += bool(mode)
                reply = await self._reply(mode, method, path, headers, body)
                torn = mode == "model-torn"
                writer.write(_head(reply) + (reply.body[: len(reply.body) // 2] if torn else reply.body))
                await writer.drain()
                if torn:
                    return

    async def _reply(
        self, mode: str, method: str, path: str, headers: Sequence[tuple[bytes, bytes]], body: bytes
    ) -> Reply:
        if mode in BAD:
            return BAD[mode]
        if mode == "model-slow":
            await asyncio.sleep(SLOW_SECONDS)
        passed = [(name, value) for name, value in headers if name not in KEPT_BACK]
        try:
            return await self._client.request(method, self._url + path, body=body, headers=passed)
        except (OSError, ValueError) as error:
            return Reply(502, [], str(error).encode())

    async def aclose(self) -> None:
        """Callers keep their connections; a task that is cancelled would be reported by the library."""
        await self._client.aclose()
        tasks = [one for one in self._open.values() if one is not None]
        for writer in self._open:
            writer.transport.abort()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def serve_faulty_model(proxy: ModelProxy, hosts: Sequence[str], chance: random.Random) -> Iterator[FaultyModel]:
    """On every one of the hosts' addresses, until the block ends."""
    started, stop = threading.Event(), threading.Event()
    errors: list[OSError] = []
    found: list[FaultyModel] = []

    async def run() -> None:
        model = FaultyModel(proxy, chance)
        found.append(model)
        try:
            server = await asyncio.start_server(model.serve, list(hosts), proxy.port, limit=MAX_HEAD)
        except OSError as error:
            errors.append(error)
            started.set()
            return
        started.set()
        async with server:
            await asyncio.to_thread(stop.wait)
            await model.aclose()

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="faulty-model")
    thread.start()
    try:
        started.wait()
        if errors:
            raise InfraError(f"The proxy before the model cannot listen on port {proxy.port}: {errors[0].strerror}.")
        yield found[0]
    finally:
        stop.set()
        thread.join()


def _parse(head: bytes) -> tuple[str, str, list[tuple[bytes, bytes]]]:
    first, *lines = head.rstrip(b"\r\n").split(b"\r\n")
    method, path, _ = first.decode("latin-1").split(" ", 2)
    pairs = [line.partition(b":") for line in lines]
    return method, path, [(name.strip().lower(), value.strip()) for name, _, value in pairs]


def _head(reply: Reply) -> bytes:
    kept = [(name, value) for name, value in reply.headers if name not in KEPT_BACK]
    lines = [b"HTTP/1.1 %d chaos" % reply.status, *(b"%s: %s" % one for one in kept)]
    return b"\r\n".join([*lines, b"content-length: %d" % len(reply.body), b"", b""])
