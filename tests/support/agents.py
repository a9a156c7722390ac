"""A fake agent in a process of its own: it does what each row's `fake` field says, and is a whole stack's discovery.

`fake`: {"delay", "status", "body", "fail_times", "words", "kind", "retryable", "raw", "drop"}; none of them: a reward,
with "odd" 1 and 0 in turns, by the repeat; {"slow_from", "delay_then"}: repeats from this one on take so long;
{"extra", "extra_odd"}: fields of the reply, the second for repeats that are odd.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.request import Request, urlopen

import orjson
import uvloop

TIMING = b"server-timing: seed;dur=0.5, model;dur=20.0, verify;dur=1.5\r\nx-gym-sdk: 0.0.0\r\n"
REASONS = {200: b"OK", 404: b"Not Found"}


@dataclass
class Fake:
    """What the server knows: its names, its settings, what it has seen."""

    names: tuple[str, ...]
    url: str
    replicas: tuple[str, ...] = ()
    constant: bytes = b""
    delay: float = 0.0
    broken: dict[str, Any] = field(default_factory=dict)  # a reply for every /run, until it is fixed
    seen: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    most: int = 0
    now: int = 0
    headers: list[dict[str, str]] = field(default_factory=list)
    aggregated: list[int] = field(default_factory=list)
    token: str = ""
    routes: bool = False  # one for each replica
    mute: bool = False  # knows no /aggregate_metrics
    settings: dict[str, Any] = field(default_factory=dict)  # of its instances, by name
    tools: list[Any] = field(default_factory=list)  # of every resources server
    statuses: dict[str, int] = field(default_factory=dict)  # of paths that it does not know
    allowed: int = 1 << 60  # so many runs go on; those that come later wait until more are

    async def answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes] | None:
        authorized = headers.get("authorization") == f"Bearer {self.token}"
        if self.token and not authorized and path != "/run":  # asked for by a router, not by a replica
            return 401, b"{}"
        if path.startswith("/s/"):
            path = "/" + path.split("/", 3)[3]
        if path == "/run":
            return await self.run(headers, body)
        if path in (known := self.documents()):
            return 200, orjson.dumps(known[path])
        if path == "/healthz":
            return (503 if self.broken.get("healthz") else 200), b"{}"
        if path == "/control":
            for name, value in orjson.loads(body).items():
                setattr(self, name, value)
            return 200, b"{}"
        if path == "/stats":
            stats = {"runs": self.runs, "now": self.now, "most": self.most, "seen": self.seen, "headers": self.headers}
            return 200, orjson.dumps({**stats, "aggregated": self.aggregated})
        if path == "/aggregate_metrics" and not self.mute:
            rows = orjson.loads(body)["verify_responses"]
            self.aggregated.append(len(rows))
            metrics = {"mean/reward": sum(row["reward"] for row in rows) / len(rows), "made_by": "agent"}
            return 200, orjson.dumps({"agent_metrics": metrics, "key_metrics": {}, "group_level_metrics": []})
        return self.statuses.get(path, 404), b"{}"

    def documents(self) -> dict[str, Any]:
        found: dict[str, Any] = {"/discovery": self.discovery()}
        found |= {"/settings": {"instances": self.settings}} if self.settings else {}
        return found | ({"/tools": self.tools} if self.tools else {})

    def begin(self) -> None:
        self.runs += 1
        self.now += 1
        self.most = max(self.most, self.now)

    async def run(self, headers: dict[str, str], body: bytes) -> tuple[int, bytes] | None:
        self.begin()
        number = self.runs
        try:
            while number > self.allowed:
                await asyncio.sleep(0.01)
            await asyncio.sleep(self.delay)
            return await self.play(headers, body)
        finally:
            self.now -= 1

    async def play(self, headers: dict[str, str], body: bytes) -> tuple[int, bytes] | None:
        row = orjson.loads(body)
        self.headers = [*self.headers[-99:], headers]
        key = f"{row['_ng_task_index']}:{row['_ng_rollout_index']}"
        self.seen[key] += 1
        fake = row.get("fake") or {}
        if fake.get("delay"):
            await asyncio.sleep(fake["delay"])
        if "slow_from" in fake and row["_ng_rollout_index"] >= fake["slow_from"]:
            await asyncio.sleep(fake["delay_then"])
        if self.broken:
            return self.broken.get("status", 500), orjson.dumps(self.broken.get("body", {}))
        if fake.get("drop"):
            return None
        if "raw" in fake:
            return 200, fake["raw"].encode()
        if self.seen[key] <= fake.get("fail_times", 0) or fake.get("fail_times") == -1:
            words = fake["words"].encode() if "words" in fake else orjson.dumps(fake.get("body", {}))
            return fake.get("status", 500), words
        return 200, verified(row)

    def discovery(self) -> dict[str, Any]:
        urls = self.replicas or (self.url,)
        replicas = [{"id": f"agent-{number}", "url": url} for number, url in enumerate(urls, 1)]
        if self.routes:
            replicas = [{**one, "route": f"/s/~{one['id']}"} for one in replicas]
        one = {"type": "responses_api_agents", "implementation": "fake", "replicas": replicas}
        return {"stack": "fake", "router": self.url, "instances": dict.fromkeys(self.names, one)}


def verified(row: dict[str, Any]) -> bytes:
    """The contract's reply; its reward depends on the row and its repeat alone."""
    response = {"output": [], "usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}}
    fake = row["fake"] if isinstance(row.get("fake"), dict) else {}
    reward = row["_ng_rollout_index"] % 2 if fake.get("odd") else row.get("expected", 1.0)
    extra = fake.get("extra_odd" if row["_ng_rollout_index"] % 2 else "extra") or fake.get("extra", {})
    return orjson.dumps({**row, "response": response, "reward": reward, **extra})


class Connection(asyncio.Protocol):
    """As little HTTP as the collector's client speaks."""

    def __init__(self, fake: Fake) -> None:
        self.fake = fake
        self.data = bytearray()
        self.expected = 0  # bytes of the request that is coming in; 0: its head is not whole yet
        self.transport: asyncio.Transport | None = None
        self.tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's own is not a subclass

    def connection_lost(self, exc: Exception | None) -> None:
        for task in self.tasks:
            task.cancel()

    def data_received(self, data: bytes) -> None:
        self.data += data
        end = self.data.find(b"\r\n\r\n") + 4 if not self.expected else 0
        if len(self.data) < self.expected or end == 3:
            return
        head, _, body = bytes(self.data[: end or self.expected]).partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        self.expected = len(head) + 4 + int(headers.get("content-length", "0"))
        if len(self.data) < self.expected:
            return
        body = bytes(self.data[len(head) + 4 : self.expected])
        del self.data[: self.expected]
        self.expected = 0
        method, path, _ = lines[0].split(" ")
        if self.fake.constant and path == "/run":
            self.fake.begin()
            asyncio.get_running_loop().call_later(self.fake.delay, self.end_constant)
            return
        task = asyncio.get_running_loop().create_task(self.serve(method, path, headers, body))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def serve(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        self.reply(await self.fake.answer(method, path, headers, body))

    def end_constant(self) -> None:
        """No task, no coroutine: benches measure the collector, not this."""
        self.fake.now -= 1
        if self.transport is not None and not self.transport.is_closing():
            self.reply((200, self.fake.constant))

    def reply(self, answer: tuple[int, bytes] | None) -> None:
        assert self.transport is not None
        if answer is None:
            self.transport.abort()
            return
        status, body = answer
        head = b"HTTP/1.1 %d %b\r\n%bcontent-length: %d\r\n\r\n" % (
            status,
            REASONS.get(status, b"Other"),
            TIMING,
            len(body),
        )
        self.transport.write(head + body)


async def serve(descriptor: int, options: dict[str, Any]) -> None:
    listener = socket.socket(fileno=descriptor)
    port = listener.getsockname()[1]
    constant = orjson.dumps(options["constant"]) if options.get("constant") else b""
    fake = Fake(
        names=tuple(options.get("names", ("agent",))),
        url=f"http://127.0.0.1:{port}",
        replicas=tuple(options.get("replicas", ())),
        constant=constant,
        delay=options.get("delay", 0.0),
        token=options.get("token", ""),
        routes=options.get("routes", False),
        settings=options.get("settings", {}),
        tools=options.get("tools", []),
        statuses=options.get("statuses", {}),
        allowed=options.get("allowed", 1 << 60),
    )
    server = await asyncio.get_running_loop().create_server(lambda: Connection(fake), sock=listener, backlog=4096)
    await server.serve_forever()


@dataclass
class FakeAgent:
    """A handle on the process. The listening socket is ours: a dead agent's port stays reserved for the next one."""

    listener: socket.socket
    options: dict[str, Any]
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def start(self) -> None:
        descriptor = self.listener.fileno()
        command = [sys.executable, __file__, str(descriptor), orjson.dumps(self.options).decode()]
        self.process = subprocess.Popen(command, pass_fds=(descriptor,), cwd=Path(__file__).parents[2])

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def control(self, **fields: Any) -> None:
        self.call("/control", orjson.dumps(fields))

    def stats(self) -> Any:
        return self.call("/stats")

    def call(self, path: str, body: bytes | None = None) -> Any:
        token = {"authorization": f"Bearer {self.options['token']}"} if self.options.get("token") else {}
        headers = {"content-type": "application/json", **token}
        with urlopen(Request(self.url + path, data=body, headers=headers), timeout=120) as reply:
            return orjson.loads(reply.read())


@contextlib.contextmanager
def fake_agent(**options: Any) -> Iterator[FakeAgent]:
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
        agent = FakeAgent(listener, options)
        agent.start()
        try:
            yield agent
        finally:
            agent.kill()


def main() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(int(sys.argv[1]), orjson.loads(sys.argv[2])))


if __name__ == "__main__":
    os.set_inheritable(int(sys.argv[1]), False)
    main()
