"""The gateway of one sandbox: what it may reach now, its open connections, and an audit line for each request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, Protocol

from gym.broker.config import EgressConfig
from gym.broker.egress import dns
from gym.broker.egress.client_hello import ClientHello, read_hello
from gym.broker.egress.destinations import EgressDenied, choose_addresses, resolve_name
from gym.broker.egress.request_head import Body, HttpRequest, read_request
from gym.broker.egress.tunnel import BufferedReader, ByteStream, Tunnel, dial
from gym.broker.grant_check import EgressRules
from gym.broker.provider import Tags
from gym.sandbox.relay import ADDRESS, DNS_STREAM, HTTP, PROXY, TLS, ConnectionLost, RelayConnection
from gym.wire.addresses import is_address, plain_host

ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
QUESTIONS: Final = 16  # of one connection to the resolver
PENDING: Final = 256  # flows and questions under way; beyond it questions are dropped, as datagrams may be


Resolve = Callable[[str, float], Awaitable[list[str]]]


class AuditNote(Protocol):
    def __call__(self, event: str, **facts: Any) -> None: ...


@dataclass
class ConnectionRecord:
    """What one connection asked for, and its outcome."""

    how: str
    host: str = ""
    port: int = 0
    verdict: str = "allowed"
    why: str = ""
    address: str = ""
    sent: int = 0
    received: int = 0


class Gateway:
    """Fits `relay.Served`."""

    def __init__(
        self, config: EgressConfig, tags: Tags, rules: EgressRules, note: AuditNote, resolve: Resolve = resolve_name
    ) -> None:
        self._config = config
        self._resolve = resolve
        self._tags = tags
        self._rules = rules
        self._note = note
        self._flows: set[asyncio.Task[None]] = set()
        self._requests = 0
        self._bytes_moved = 0

    async def change(self, rules: EgressRules) -> None:
        """Applies new rules; all open and pending connections are closed when this returns."""
        self._rules = rules
        await self.close()

    async def close(self) -> None:
        flows = tuple(self._flows)
        for flow in flows:
            flow.cancel()
        await asyncio.gather(*flows, return_exceptions=True)

    def accept(self, port_index: int, connection: RelayConnection) -> None:
        if not self._count():
            connection.abort()
            return
        self._spawn(self.serve(port_index, connection))

    def ask(self, port_index: int, data: bytes, answer: Callable[[bytes], None]) -> None:
        question = dns.read_question(data)
        if question is None or len(self._flows) > PENDING or not self._count():
            return

        async def reply() -> None:
            answer(await self._answer(question))

        self._spawn(reply())

    async def serve(self, port_index: int, connection: ByteStream) -> None:
        handlers = {PROXY: self._proxy, HTTP: self._plain, TLS: self._tls, DNS_STREAM: self._questions}
        handler = handlers.get(port_index)
        record, began = (
            ConnectionRecord({PROXY: "proxy", HTTP: "http", TLS: "tls"}.get(port_index, "dns")),
            time.monotonic(),
        )
        try:
            if handler is not None:
                await handler(record, connection)
        except EgressDenied as error:
            record.verdict, record.why = "failed" if error.gateway else "refused", error.why
            await self._send_refusal(record, connection, error)
        except (ConnectionLost, OSError) as error:
            record.why = str(error) or type(error).__name__
            record.verdict = "ended" if record.address else "refused"
        except asyncio.CancelledError:
            record.why = "the phase, or the sandbox, ended"
            record.verdict = "ended"
            raise
        finally:
            connection.abort()
            if record.how != "dns":
                self._log(record, time.monotonic() - began)

    async def _proxy(self, record: ConnectionRecord, connection: ByteStream) -> None:
        source, request = await self._read_request(connection, proxied=True)
        if not request.connects:
            await self._forward(record, connection, source, request)
            return
        record.how, record.host, record.port = "connect", request.target.host, request.target.port
        outside = await self._reach(record)
        try:
            await connection.write(ESTABLISHED)
            hello = await self._read_hello(source)
            check_hello(hello, record.host)
            await self._carry(record, connection, outside, source.rest(), None)
        finally:
            outside.abort()

    async def _plain(self, record: ConnectionRecord, connection: ByteStream) -> None:
        """A client that ignored the proxy variables, and was led here by our resolver."""
        source, request = await self._read_request(connection, proxied=False)
        if request.connects:
            raise EgressDenied("CONNECT is for a proxy")
        await self._forward(record, connection, source, request)

    async def _tls(self, record: ConnectionRecord, connection: ByteStream) -> None:
        source = BufferedReader(connection)
        hello = await self._read_hello(source)
        record.host, record.port = plain_host(hello.name or ""), 443
        check_hello(hello, record.host)
        outside = await self._reach(record)
        try:
            await self._carry(record, connection, outside, source.rest(), None)
        finally:
            outside.abort()

    async def _forward(
        self, record: ConnectionRecord, connection: ByteStream, source: BufferedReader, request: HttpRequest
    ) -> None:
        record.how, record.host, record.port = "http", request.target.host, request.target.port
        outside = await self._reach(record)
        try:
            await outside.write(request.head())
            await self._carry(record, connection, outside, source.rest(), request.body)
        finally:
            outside.abort()

    async def _reach(self, record: ConnectionRecord) -> ByteStream:
        self._check(record.host, record.port)
        config = self._config
        addresses = choose_addresses(
            await self._resolve(record.host, config.connect_seconds), record.host, config.private
        )
        outside, record.address = await dial(addresses, record.port, config.connect_seconds, record.host)
        return outside

    def _check(self, host: str, port: int) -> None:
        if not self._rules.allows(host):
            hosts = ", ".join(self._rules.hosts) or "nothing"
            raise EgressDenied(f"{host or 'that'} is not among what this sandbox may reach now: {hosts}")
        if port not in self._config.ports:
            ports = ", ".join(map(str, self._config.ports))
            raise EgressDenied(f"port {port} is not open; `sandbox_settings.egress.ports` has {ports}")

    async def _carry(
        self, record: ConnectionRecord, inside: ByteStream, outside: ByteStream, first: bytes, body: Body | None
    ) -> None:
        def count(sent: int, received: int) -> None:
            record.sent += sent
            record.received += received
            self._bytes_moved += sent + received
            if self._bytes_moved > self._config.max_bytes:
                raise EgressDenied(f"this sandbox has moved {self._config.max_bytes} bytes, which is all it may")

        await Tunnel(inside, outside, count, self._config.idle_seconds).carry(first, body)

    async def _read_request(self, connection: ByteStream, *, proxied: bool) -> tuple[BufferedReader, HttpRequest]:
        source = BufferedReader(connection)
        async with self._head_time():
            head = await source.until(b"\r\n\r\n", self._config.head_bytes)
        return source, read_request(head, proxied=proxied)

    async def _read_hello(self, source: BufferedReader) -> ClientHello:
        async with self._head_time():
            while (hello := read_hello(source.peek())) is None:
                if len(await source.peek_more()) > self._config.head_bytes:
                    raise EgressDenied(f"a ClientHello of more than {self._config.head_bytes} bytes")
        return hello

    def _head_time(self) -> asyncio.Timeout:
        return asyncio.timeout(self._config.head_seconds)

    async def _send_refusal(self, record: ConnectionRecord, connection: ByteStream, error: EgressDenied) -> None:
        """Sends the reason as HTTP, where the client can read it: not within TLS, nor in the middle of a reply."""
        if record.received or record.how == "tls" or (record.how == "connect" and record.address):
            return
        text = f"Egress gate of this sandbox: {error.why}.\n".encode()
        status = b"502 Bad Gateway" if error.gateway else b"403 Forbidden"
        head = (
            b"HTTP/1.1 %b\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        )
        try:
            async with self._head_time():
                await connection.write(head % (status, len(text)) + text)
                await connection.end()
                await connection.flush()
        except (ConnectionLost, OSError):
            return

    async def _questions(self, record: ConnectionRecord, connection: ByteStream) -> None:
        source = BufferedReader(connection)
        for _ in range(QUESTIONS):
            async with self._head_time():
                size = await source.some(1) + await source.some(1)
                data = b""
                while len(data) < int.from_bytes(size):
                    data += await source.some(int.from_bytes(size) - len(data))
            question = dns.read_question(data)
            if question is None or not self._count():
                return
            answer = await self._answer(question)
            await connection.write(len(answer).to_bytes(2) + answer)

    async def _answer(self, question: dns.DnsQuestion) -> bytes:
        """Nothing of a question is passed on, except the name itself where the internet is granted."""
        record = ConnectionRecord("dns", question.name, why=question.kind_name)
        code, addresses = dns.NO_ERROR, list[str]()
        if not self._rules.allows(question.name) or is_address(question.name):
            record.verdict, code = "refused", dns.NO_SUCH_NAME
        elif question.kind == dns.A and not self._rules.everything:
            addresses = [ADDRESS]
        elif question.kind == dns.A:
            try:
                addresses = [
                    one for one in await self._resolve(question.name, self._config.connect_seconds) if "." in one
                ]
            except EgressDenied:
                record.verdict, code = "failed", dns.NO_SUCH_NAME
        self._log(record, 0.0)
        return dns.write_answer(question, code, addresses[:16])

    def _count(self) -> bool:
        self._requests += 1
        if self._requests == self._config.total + 1:
            self._log(
                ConnectionRecord("any", verdict="refused", why="it has used all of its requests; no more are logged"),
                0.0,
            )
        return self._requests <= self._config.total

    def _log(self, record: ConnectionRecord, seconds: float) -> None:
        tags = self._tags
        facts: dict[str, Any] = {"sandbox": tags.id, "instance": tags.instance, "rollout": tags.rollout}
        facts |= {
            "how": record.how,
            "host": record.host,
            "port": record.port or None,
            "verdict": record.verdict,
            "why": record.why,
        }
        if record.how != "dns":
            facts |= {"address": record.address, "sent": record.sent, "received": record.received, "seconds": seconds}
        self._note("egress", **facts)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=f"egress-{self._tags.id}")
        self._flows.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._flows.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log(ConnectionRecord("any", verdict="failed", why=f"the gate itself failed: {error!r}"), 0.0)


def check_hello(hello: ClientHello, host: str) -> None:
    """The server name is all that is visible of TLS, so it must be present and be the name that was checked."""
    if hello.encrypted:
        raise EgressDenied("the ClientHello is encrypted (ECH), so its name cannot be checked; switch ECH off")
    if hello.name is None and not is_address(host):
        raise EgressDenied("the ClientHello names no server (SNI)")
    if hello.name is not None and plain_host(hello.name) != host:
        raise EgressDenied(f"the ClientHello names {hello.name[:100]}, and not {host}")
