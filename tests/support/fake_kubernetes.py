"""A Kubernetes API with pods that run: lists, watches, creations, deletions and attaching, in the real API's shapes."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from gym.broker.providers.kubernetes.attach_stream import STATUS, STDIN
from gym.http.websocket import BINARY, CLOSE, Decoder, accept_key, encode
from tests.support.fake_pods import FakePodProcess

Pod = dict[str, Any]
NAMESPACE = "gym-demo-sandboxes"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
TOKEN = "first-token"


class Fault(NamedTuple):
    """What the next request of a method gets instead; `done`: it was carried out all the same."""

    method: str
    status: int  # 0: the connection breaks off
    reason: str = ""
    message: str = ""
    headers: str = ""
    done: bool = False


class Asked(NamedTuple):
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any


class FakeKubernetes:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.url = ""
        self.account = root / "account"
        self.pods: dict[str, Pod] = {}
        self.processes: dict[str, FakePodProcess] = {}
        self.faults: deque[Fault] = deque()
        self.stays: dict[str, dict[str, Any]] = {}  # image -> the status that its pods stay in
        self.silent = False  # no event tells of a change
        self.holds_pods = False  # nodes do not confirm deletions
        self.asked: list[Asked] = []
        self.protocol = "v5.channel.k8s.io"
        self._events: list[tuple[int, str, Pod]] = []
        self._versions = itertools.count(100)
        self._now = 100
        self._oldest = 0
        self._changed = asyncio.Condition()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    def set_token(self, token: str) -> None:
        self.account.mkdir(exist_ok=True)
        (self.account / "token").write_text(f"{token}\n")
        (self.account / "namespace").write_text(NAMESPACE)

    async def expire(self) -> None:
        """Events until now are no longer kept: who asks for them, or waits for the next, gets a 410."""
        async with self._changed:
            self._oldest = self._now = next(self._versions)
            self._changed.notify_all()

    async def set_status(self, name: str, **status: Any) -> None:
        self.pods[name]["status"] |= status
        await self.tell("MODIFIED", self.pods[name])

    async def vanish(self, name: str) -> None:
        """As another would delete it."""
        await self._delete(name)

    async def tell(self, kind: str, pod: Pod) -> None:
        async with self._changed:
            self._now = next(self._versions)
            pod["metadata"]["resourceVersion"] = str(self._now)
            if not self.silent:
                self._events.append((self._now, kind, copy.deepcopy(pod)))
            self._changed.notify_all()

    def break_connections(self) -> None:
        """Every connection, as when the API server restarts."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    def spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        self.break_connections()
        for process in self.processes.values():
            await process.kill()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            with contextlib.suppress(OSError, EOFError):
                while await self._serve_one(reader, writer):
                    pass
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, target, _ = head[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        parts = urlsplit(target)
        query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        asked = Asked(method, parts.path, query, headers, json.loads(body) if body else None)
        self.asked.append(asked)
        if (fault := self._fault(method)) is not None:
            if fault.done:
                await self._answer(asked)
            if not fault.status:
                return False
            _reply(writer, fault.status, status_of(fault.status, fault.reason, fault.message), fault.headers)
            return True
        if headers.get("authorization") != f"Bearer {(self.account / 'token').read_text().strip()}":
            _reply(writer, 401, status_of(401, "Unauthorized", "Unauthorized"))
        elif query.get("watch") == "1":
            await self._watch(asked, writer)
            return False
        elif parts.path.endswith("/attach"):
            await self._attach(asked, reader, writer)
            return False
        else:
            _reply(writer, *await self._answer(asked))
        await writer.drain()
        return True

    def _fault(self, method: str) -> Fault | None:
        if self.faults and self.faults[0].method == method:
            return self.faults.popleft()
        return None

    async def _answer(self, asked: Asked) -> tuple[int, Any]:
        name = asked.path.removeprefix(PODS).strip("/")
        if asked.method == "POST" and asked.path == PODS:
            return await self._create(asked.body)
        if asked.method == "GET" and asked.path == PODS:
            return self._list(asked)
        if name not in self.pods:
            return 404, status_of(404, "NotFound", f'pods "{name}" not found')
        if asked.method == "DELETE":
            pod = self.pods[name]
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            forced = (asked.body or {}).get("gracePeriodSeconds") == 0
            if forced or not self.holds_pods:
                self.spawn(self._delete(name))
            return 200, pod
        return 200, self.pods[name]

    def _list(self, asked: Asked) -> tuple[int, Any]:
        """In pages, as a large list comes."""
        found = [one for one in self.pods.values() if _selected(one, asked)]
        begin, size = int(asked.query.get("continue", "0")), min(int(asked.query.get("limit", "500")), 2)
        more = {"continue": str(begin + size)} if len(found) > begin + size else {}
        metadata = {"resourceVersion": str(self._now), **more}
        return 200, {"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": found[begin : begin + size]}

    async def _create(self, pod: Pod) -> tuple[int, Any]:
        name = pod["metadata"]["name"]
        if name in self.pods:
            return 409, status_of(409, "AlreadyExists", f'pods "{name}" already exists')
        pod["metadata"] |= {"uid": f"uid-{next(self._versions)}", "namespace": NAMESPACE}
        pod["status"] = {"phase": "Pending", "qosClass": "Guaranteed"}
        self.pods[name] = pod
        await self.tell("ADDED", pod)
        self.spawn(self._run(name))
        return 201, copy.deepcopy(pod)

    async def _run(self, name: str) -> None:
        pod = self.pods[name]
        stays = self.stays.get(pod["spec"]["containers"][0]["image"])
        if stays is not None:
            pod["spec"] |= stays.get("spec", {})
            await self.set_status(name, **stays["status"])
            return
        pod["spec"]["nodeName"] = "node-1"
        await self.set_status(name, conditions=[{"type": "PodScheduled", "status": "True"}])
        process = self.processes[name] = FakePodProcess(self.root, pod)
        await process.start()
        await self.set_status(
            name, phase="Running", **container_state({"running": {"startedAt": "2026-01-01T00:00:00Z"}})
        )
        code = await process.wait()
        if name in self.pods:
            ended = {"terminated": {"exitCode": code, "reason": "Completed" if code == 0 else "Error"}}
            known = pod["status"]["containerStatuses"][0]["state"]
            if "terminated" not in known:
                await self.set_status(name, phase="Failed" if code else "Succeeded", **container_state(ended))

    async def _delete(self, name: str) -> None:
        if (process := self.processes.pop(name, None)) is not None:
            await process.kill()
            process.clear()
        if (pod := self.pods.pop(name, None)) is not None:
            await self.tell("DELETED", pod)

    async def _watch(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        seen = int(asked.query["resourceVersion"])
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            async with self._changed:
                while self._now <= seen and self._oldest <= seen:
                    await self._changed.wait()
                news = [one for one in self._events if one[0] > seen]
                expired, seen = self._oldest > seen, self._now
            if expired:
                gone = status_of(410, "Expired", "too old resource version")
                _chunk(writer, {"type": "ERROR", "object": gone})
                await writer.drain()
                return
            for _, kind, pod in news:
                if _selected(pod, asked):
                    _chunk(writer, {"type": kind, "object": pod})
            bookmark = {"kind": "Pod", "metadata": {"resourceVersion": str(seen)}}
            _chunk(writer, {"type": "BOOKMARK", "object": bookmark})
            await writer.drain()

    async def _attach(self, asked: Asked, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = asked.path.removeprefix(PODS + "/").removesuffix("/attach")
        process = self.processes.get(name)
        offered = [one.strip() for one in asked.headers.get("sec-websocket-protocol", "").split(",")]
        if process is None or self.protocol not in offered:
            _reply(writer, 400, status_of(400, "BadRequest", f"container sandbox in pod {name} is not running"))
            await writer.drain()
            return
        key = accept_key(asked.headers["sec-websocket-key"].encode()).decode()
        switched = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        agreed = f"Sec-WebSocket-Accept: {key}\r\nSec-WebSocket-Protocol: {self.protocol}\r\n\r\n"
        writer.write((switched + agreed).encode())
        await _pump(process, reader, writer)


async def _pump(process: FakePodProcess, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    def hear(channel: int, data: bytes) -> None:
        writer.write(encode(BINARY, bytes([channel]) + data))

    async def end() -> None:
        code = await process.wait()
        hear(STATUS, json.dumps(exit_status(code)).encode())
        writer.write(encode(CLOSE, b"\x03\xe8"))

    process.hearing.add(hear)
    ending = asyncio.create_task(end())
    decoder = Decoder(masked=True)
    try:
        while data := await reader.read(1 << 16):
            for message in decoder.feed(data):
                if message.kind == CLOSE:
                    return
                if message.kind == BINARY and message.data[0] == STDIN:
                    process.stdin.write(message.data[1:])
            await process.stdin.drain()
    finally:
        process.hearing.discard(hear)
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)


@asynccontextmanager
async def fake_kubernetes(root: Path) -> AsyncIterator[FakeKubernetes]:
    fake = FakeKubernetes(root)
    fake.set_token(TOKEN)
    server = await asyncio.start_server(lambda *pipes: fake.spawn(fake.serve(*pipes)), "127.0.0.1", 0, limit=16 << 20)
    fake.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield fake
    finally:
        server.close()
        await fake.close()
        await server.wait_closed()


def container_state(state: dict[str, Any], name: str = "sandbox") -> dict[str, Any]:
    return {"containerStatuses": [{"name": name, "state": state, "ready": "running" in state}]}


def status_of(code: int, reason: str, message: str) -> dict[str, Any]:
    common = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**common, "message": message, "reason": reason, "code": code}


def exit_status(code: int) -> dict[str, Any]:
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    words = f"command terminated with non-zero exit code: exit status {code}"
    causes = {"causes": [{"reason": "ExitCode", "message": str(code)}]}
    return {"metadata": {}, "status": "Failure", "message": words, "reason": "NonZeroExitCode", "details": causes}


def _selected(pod: Pod, asked: Asked) -> bool:
    found = pod["metadata"].get("labels") or {}
    for term in filter(None, asked.query.get("labelSelector", "").split(",")):
        key, equals, value = term.partition("=")
        if key not in found or (equals and found[key] != value):
            return False
    return True


def _reply(writer: asyncio.StreamWriter, status: int, body: Any, headers: str = "") -> None:
    data = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} Any\r\ncontent-type: application/json\r\ncontent-length: {len(data)}\r\n{headers}\r\n"
    writer.write(head.encode() + data)


def _chunk(writer: asyncio.StreamWriter, event: dict[str, Any]) -> None:
    data = json.dumps(event).encode() + b"\n"
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))
