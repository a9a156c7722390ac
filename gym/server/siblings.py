"""The other replicas of the same model instance: asks each of them for its part of a session."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from gym.http.pool import HttpClient, Reply
from gym.server.replicas import Peers, Replica


@dataclass(slots=True)
class SiblingReply:
    """The reply of another replica. `reply` is None where it could not be reached."""

    url: str
    reply: Reply | None
    fields: dict[str, Any]

    @property
    def mark(self) -> str:
        return str(self.fields.get("process", ""))

    @property
    def conflicts(self) -> bool:
        return self.reply is not None and self.reply.status == 409


class Siblings:
    """The other replicas of the same instance. A mark names a process: one that was restarted is another."""

    def __init__(self, name: str, discovery: str) -> None:
        self.mark = secrets.token_hex(8)
        self._name = name
        self._discovery = discovery
        self._began = time.monotonic()
        self._own_url = ""
        self._http: HttpClient | None = None
        self._peers: Peers | None = None

    @property
    def possible(self) -> bool:
        return bool(self._discovery)

    def introduction(self) -> dict[str, Any]:
        return {"process": self.mark, "age": time.monotonic() - self._began}

    async def others(self) -> list[Replica]:
        if not self._discovery:
            return []
        if self._peers is None:
            self._http = HttpClient()
            self._peers = Peers(self._discovery, {}, self._http)
        replicas = await self._peers.replicas(self._name)
        return [one for one in replicas if one.url != self._own_url] if len(replicas) > 1 else []

    async def ask_all(
        self, method: str, path: str, headers: Sequence[tuple[bytes, bytes]], seconds: float
    ) -> list[SiblingReply]:
        tasks = [asyncio.create_task(self._ask(one, method, path, headers, seconds)) for one in await self.others()]
        try:
            replies = [await one for one in tasks]
        finally:
            for one in tasks:
                one.cancel()
        own = next((one for one in replies if one.mark == self.mark), None)
        self._own_url = own.url if own else self._own_url
        return [one for one in replies if one.mark != self.mark]

    async def aclose(self) -> None:
        if self._http is not None:
            await self._http.aclose()

    async def _ask(
        self, replica: Replica, method: str, path: str, headers: Sequence[tuple[bytes, bytes]], seconds: float
    ) -> SiblingReply:
        assert self._http is not None
        try:
            reply = await self._http.request(method, replica.url + path, headers=headers, timeout=seconds)
        except (OSError, TimeoutError):
            return SiblingReply(replica.url, None, {})
        try:
            fields = orjson.loads(reply.body)
        except orjson.JSONDecodeError:
            fields = {}
        return SiblingReply(replica.url, reply, fields if isinstance(fields, dict) else {})
