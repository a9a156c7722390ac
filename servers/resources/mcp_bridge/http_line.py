"""An MCP server at an address: streamable HTTP, each request a POST of its own.

A reply is read whole, as JSON or as an event stream that ends. What a server sends outside of replies is not heard.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import orjson
from lines import LineBroken, LineLate, Message

from gym.http.pool import HttpClient, Reply
from gym.wire.json_text import parse_or

CLOSE_SECONDS = 5.0
ACCEPTED = (b"application/json", b"text/event-stream")


class HttpLine:
    def __init__(self, http: HttpClient, url: str, headers: Mapping[str, str]) -> None:
        self.version = ""
        self._http = http
        self._url = url
        self._session = b""
        own = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        self._headers = [(b"content-type", b"application/json"), (b"accept", b", ".join(ACCEPTED)), *own]

    async def ask(self, message: Message, seconds: float) -> Message:
        reply = await self._send(message, seconds)
        self._session = reply.header(b"mcp-session-id") or self._session
        for one in _messages(reply):
            if one.get("id") == message["id"] and ("result" in one or "error" in one):
                return one
        raise LineBroken(f"it answered {reply.status} without a reply to {message['method']}: {_start(reply)}")

    async def tell(self, message: Message) -> None:
        await self._send(message, CLOSE_SECONDS)

    async def aclose(self) -> None:
        """A server may keep its sessions to itself, and one that has gone has none."""
        session, self._session = self._session, b""
        if session:
            headers = [*self._headers, (b"mcp-session-id", session), (b"mcp-protocol-version", self.version.encode())]
            with suppress(OSError, TimeoutError):
                await self._http.request("DELETE", self._url, headers=headers, timeout=CLOSE_SECONDS)

    async def _send(self, message: Message, seconds: float) -> Reply:
        headers = list(self._headers)
        if self._session:
            headers.append((b"mcp-session-id", self._session))
        if self.version:
            headers.append((b"mcp-protocol-version", self.version.encode()))
        try:
            body = orjson.dumps(message)
            reply = await self._http.request("POST", self._url, body=body, headers=headers, timeout=seconds)
        except TimeoutError:
            raise LineLate(f"{self._url} did not answer within {seconds:g} s") from None
        except OSError as error:
            raise LineBroken(f"{self._url} cannot be reached: {error}") from None
        if reply.status == 404 and self._session:
            raise LineBroken(f"{self._url} has forgotten this session")
        if reply.status >= 400 and not any("error" in one for one in _messages(reply)):
            raise LineBroken(f"{self._url} answered {reply.status}: {_start(reply)}")
        return reply


def _messages(reply: Reply) -> list[dict[str, Any]]:
    """Of a body that is JSON, or of the events of a stream."""
    if (reply.header(b"content-type") or b"").startswith(b"text/event-stream"):
        text = reply.body.replace(b"\r\n", b"\n")
        found = [_data(event) for event in text.split(b"\n\n")]
    else:
        found = [reply.body]
    parsed = [parse_or(one) for one in found if one.strip()]
    flat = [one for group in parsed for one in (group if isinstance(group, list) else [group])]
    return [one for one in flat if isinstance(one, dict)]


def _data(event: bytes) -> bytes:
    lines = (line for line in event.split(b"\n") if line.startswith(b"data:"))
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines)


def _start(reply: Reply) -> str:
    return reply.body[:300].decode("utf-8", "replace").strip() or "nothing"
