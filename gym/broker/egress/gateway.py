"""One sandbox before its gate: what it may reach now, what is open, and a line in the log for each thing it asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, Protocol

from gym.broker.egress import dns
from gym.broker.egress.client_hello import Hello, read_hello
from gym.broker.egress.config import EgressConfig
from gym.broker.egress.errors import Denied, LineGone
from gym.broker.egress.relay import ADDRESS, DNS_STREAM, HTTP, PROXY, TLS, RelayLine
from gym.broker.egress.request_head import Body, HttpRequest, read_request
from gym.broker.egress.rules import Rules, choose_addresses, resolve_name
from gym.broker.egress.tunnel import Carrier, Line, Source, dial
from gym.broker.provider import Tags
from gym.wire.addresses import is_address, plain_host

ESTABLISHED: Final = b"HTTP/1.1 200 Connection established\r\n\r\n"
QUESTIONS: Final = 16  # of one connection to the resolver
PENDING: Final = 256  # flows and questions under way; beyond it questions are dropped, as datagrams may be


Resolve = Callable[[str, float], Awaitable[list[str]]]


class Note(Protocol):
    def __call__(self, event: str, **facts: Any) -> None: ...


@dataclass
class Ask:
    """What one connection wanted, and what became of it."""

    how: str
    host: str = ""
    port: int = 0
    verdict: str = "allowed"
    why: str = ""
    address: str = ""
    sent: int = 0
    received: int = 0


class Door:
    """Fits `relay.Served`."""

    def __init__(
        self, config: EgressConfig, tags: Tags, rules: Rules, note: Note, resolve: Resolve = resolve_name
    ) -> None:
        self._config = config
        self._resolve = resolve
        self._tags = tags
        self._rules = rules
        self._note = note
        self._flows: set[asyncio.Task[None]] = set()
        self._asked = 0
        self._moved = 0

    @property
    def open_connections(self) -> int:
        return len(self._flows)

    async def change(self, rules: Rules) -> None:
        """From here on these rules hold; whatever was open, or on its way to be, is gone when this returns."""
        self._rules = rules
        await self.close()

    async def close(self) -> None:
        flows = tuple(self._flows)
        for flow in flows:
            flow.cancel()
        await asyncio.gather(*flows, return_exceptions=True)

    def accept(self, door: int, line: RelayLine) -> None:
        if not self._count():
            line.abort()
            return
        self._spawn(self.serve(door, line))

    def ask(self, door: int, data: bytes, answer: Callable[[bytes], None]) -> None:
        question = dns.read_question(data)
        if question is None or len(self._flows) > PENDING or not self._count():
            return

        async def reply() -> None:
            answer(await self._answer(question))

        self._spawn(reply())

    async def serve(self, door: int, line: Line) -> None:
        handlers = {PROXY: self._proxy, HTTP: self._plain, TLS: self._tls, DNS_STREAM: self._questions}
        handler = handlers.get(door)
        ask, began = Ask({PROXY: "proxy", HTTP: "http", TLS: "tls"}.get(door, "dns")), time.monotonic()
        try:
            if handler is not None:
                await handler(ask, line)
        except Denied as error:
            ask.verdict, ask.why = "failed" if error.gateway else "refused", error.why
            await self._say_no(ask, line, error)
        except (LineGone, OSError) as error:
            ask.why = str(error) or type(error).__name__
            ask.verdict = "ended" if ask.address else "refused"
        except asyncio.CancelledError:
            ask.why = "the phase, or the sandbox, ended"
            ask.verdict = "ended"
            raise
        finally:
            line.abort()
            if ask.how != "dns":
                self._write_down(ask, time.monotonic() - began)

    async def _proxy(self, ask: Ask, line: Line) -> None:
        source, request = await self._read_request(line, proxied=True)
        if not request.connects:
            await self._forward(ask, line, source, request)
            return
        ask.how, ask.host, ask.port = "connect", request.target.host, request.target.port
        outside = await self._reach(ask)
        try:
            await line.write(ESTABLISHED)
            hello = await self._read_hello(source)
            check_hello(hello, ask.host)
            await self._carry(ask, line, outside, source.rest(), None)
        finally:
            outside.abort()

    async def _plain(self, ask: Ask, line: Line) -> None:
        """Who ignored the proxy variables, and was led here by our resolver."""
        source, request = await self._read_request(line, proxied=False)
        if request.connects:
            raise Denied("CONNECT is for a proxy")
        await self._forward(ask, line, source, request)

    async def _tls(self, ask: Ask, line: Line) -> None:
        source = Source(line)
        hello = await self._read_hello(source)
        ask.host, ask.port = plain_host(hello.name or ""), 443
        check_hello(hello, ask.host)
        outside = await self._reach(ask)
        try:
            await self._carry(ask, line, outside, source.rest(), None)
        finally:
            outside.abort()

    async def _forward(self, ask: Ask, line: Line, source: Source, request: HttpRequest) -> None:
        ask.how, ask.host, ask.port = "http", request.target.host, request.target.port
        outside = await self._reach(ask)
        try:
            await outside.write(request.head())
            await self._carry(ask, line, outside, source.rest(), request.body)
        finally:
            outside.abort()

    async def _reach(self, ask: Ask) -> Line:
        self._check(ask.host, ask.port)
        config = self._config
        addresses = choose_addresses(await self._resolve(ask.host, config.connect_seconds), ask.host, config.private)
        outside, ask.address = await dial(addresses, ask.port, config.connect_seconds, ask.host)
        return outside

    def _check(self, host: str, port: int) -> None:
        if not self._rules.allows(host):
            hosts = ", ".join(self._rules.hosts) or "nothing"
            raise Denied(f"{host or 'that'} is not among what this sandbox may reach now: {hosts}")
        if port not in self._config.ports:
            ports = ", ".join(map(str, self._config.ports))
            raise Denied(f"port {port} is not open; `sandbox_settings.egress.ports` has {ports}")

    async def _carry(self, ask: Ask, inside: Line, outside: Line, first: bytes, body: Body | None) -> None:
        def count(sent: int, received: int) -> None:
            ask.sent += sent
            ask.received += received
            self._moved += sent + received
            if self._moved > self._config.max_bytes:
                raise Denied(f"this sandbox has moved {self._config.max_bytes} bytes, which is all it may")

        await Carrier(inside, outside, count, self._config.idle_seconds).carry(first, body)

    async def _read_request(self, line: Line, *, proxied: bool) -> tuple[Source, HttpRequest]:
        source = Source(line)
        async with self._head_time():
            head = await source.until(b"\r\n\r\n", self._config.head_bytes)
        return source, read_request(head, proxied=proxied)

    async def _read_hello(self, source: Source) -> Hello:
        async with self._head_time():
            while (hello := read_hello(source.peek())) is None:
                if len(await source.peek_more()) > self._config.head_bytes:
                    raise Denied(f"a ClientHello of more than {self._config.head_bytes} bytes")
        return hello

    def _head_time(self) -> asyncio.Timeout:
        return asyncio.timeout(self._config.head_seconds)

    async def _say_no(self, ask: Ask, line: Line, error: Denied) -> None:
        """In words, where they can be read: not within TLS, nor in the middle of an answer."""
        if ask.received or ask.how == "tls" or (ask.how == "connect" and ask.address):
            return
        text = f"Egress gate of this sandbox: {error.why}.\n".encode()
        status = b"502 Bad Gateway" if error.gateway else b"403 Forbidden"
        head = (
            b"HTTP/1.1 %b\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        )
        try:
            async with self._head_time():
                await line.write(head % (status, len(text)) + text)
                await line.end()
                await line.flush()
        except (LineGone, OSError):
            return

    async def _questions(self, ask: Ask, line: Line) -> None:
        source = Source(line)
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
            await line.write(len(answer).to_bytes(2) + answer)

    async def _answer(self, question: dns.Question) -> bytes:
        """Nothing of a question is ever passed on but, where everything is granted, the name itself."""
        ask = Ask("dns", question.name, why=question.kind_name)
        code, addresses = dns.NO_ERROR, list[str]()
        if not self._rules.allows(question.name) or is_address(question.name):
            ask.verdict, code = "refused", dns.NO_SUCH_NAME
        elif question.kind == dns.A and not self._rules.everything:
            addresses = [ADDRESS]
        elif question.kind == dns.A:
            try:
                addresses = [
                    one for one in await self._resolve(question.name, self._config.connect_seconds) if "." in one
                ]
            except Denied:
                ask.verdict, code = "failed", dns.NO_SUCH_NAME
        self._write_down(ask, 0.0)
        return dns.write_answer(question, code, addresses[:16])

    def _count(self) -> bool:
        self._asked += 1
        if self._asked == self._config.total + 1:
            self._write_down(Ask("any", verdict="refused", why="it has asked as often as it may; no more is told"), 0.0)
        return self._asked <= self._config.total

    def _write_down(self, ask: Ask, seconds: float) -> None:
        tags = self._tags
        facts: dict[str, Any] = {"sandbox": tags.id, "instance": tags.instance, "rollout": tags.rollout}
        facts |= {"how": ask.how, "host": ask.host, "port": ask.port or None, "verdict": ask.verdict, "why": ask.why}
        if ask.how != "dns":
            facts |= {"address": ask.address, "sent": ask.sent, "received": ask.received, "seconds": seconds}
        self._note("egress", **facts)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=f"egress-{self._tags.id}")
        self._flows.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._flows.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._write_down(Ask("any", verdict="failed", why=f"the gate itself failed: {error!r}"), 0.0)


def check_hello(hello: Hello, host: str) -> None:
    """The name in the clear is all that can be seen of TLS, so it has to be there, and be the one that was checked."""
    if hello.encrypted:
        raise Denied("the ClientHello is encrypted (ECH), so its name cannot be checked; switch ECH off")
    if hello.name is None and not is_address(host):
        raise Denied("the ClientHello names no server (SNI)")
    if hello.name is not None and plain_host(hello.name) != host:
        raise Denied(f"the ClientHello names {hello.name[:100]}, and not {host}")
