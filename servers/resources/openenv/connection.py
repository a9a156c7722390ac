"""One episode of an OpenEnv environment over its WebSocket: reset, steps, close. A connection is a session there."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any, Self

import aiohttp

from gym.wire.failures import RolloutError

LARGEST = 64 << 20  # bytes of a message
PAUSE_SECONDS = 0.5  # between two tries for a place
# What the environment answers to an action that is not one of its own, or that it cannot read.
REFUSALS = ("VALIDATION_ERROR", "INVALID_JSON")
FULL = "CAPACITY_REACHED"


class Refused(Exception):
    """The environment does not take that action."""


class Connection:
    def __init__(self, session: aiohttp.ClientSession, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._session = session
        self._socket = socket
        self.first: dict[str, Any] = {}

    @classmethod
    async def open(cls, url: str, reset: dict[str, Any], *, seconds: float) -> Self:
        """Connected, and reset. Where every place is taken it waits for one."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    connection = await cls._connect(url)
                    try:
                        connection.first = await connection._ask("reset", reset)
                        return connection
                    except BaseException as error:
                        await connection.aclose()
                        if not isinstance(error, _Full):
                            raise
                    await asyncio.sleep(PAUSE_SECONDS)
        except TimeoutError:
            raise RolloutError("timeout", f"{url}: no episode began within {seconds:g} s") from None
        except Refused as error:
            raise RolloutError("row", f"reset: the environment does not take {reset}: {error}") from None

    @classmethod
    async def _connect(cls, url: str) -> Self:
        session = aiohttp.ClientSession(trust_env=False)
        address = url.rstrip("/").removesuffix("/ws") + "/ws"
        try:
            return cls(session, await session.ws_connect(address, max_msg_size=LARGEST, autoping=True))
        except BaseException as error:
            await session.close()
            if isinstance(error, aiohttp.ClientError | OSError):
                raise RolloutError("resources", f"{address}: {error or type(error).__name__}", retryable=True) from None
            raise

    async def step(self, action: dict[str, Any], *, seconds: float) -> dict[str, Any]:
        try:
            async with asyncio.timeout(seconds):
                return await self._ask("step", action)
        except TimeoutError:
            raise RolloutError("timeout", f"the environment did not answer a step within {seconds:g} s") from None

    async def aclose(self) -> None:
        with suppress(aiohttp.ClientError, OSError, TimeoutError):
            async with asyncio.timeout(5.0):
                if not self._socket.closed:
                    await self._socket.send_str('{"type":"close"}')
                await self._socket.close()
        await self._session.close()

    async def _ask(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        try:
            await self._socket.send_str(json.dumps({"type": kind, "data": data}))
            message = await self._socket.receive()
        except (aiohttp.ClientError, OSError) as error:
            raise RolloutError("resources", f"the environment went away: {error}", retryable=True) from None
        if message.type is not aiohttp.WSMsgType.TEXT:
            raise RolloutError("resources", f"the environment closed the connection in a {kind}", retryable=True)
        return _read(message.data, kind)


class _Full(RolloutError):
    """Every place of the environment is taken."""


def _read(text: str, kind: str) -> dict[str, Any]:
    try:
        reply = json.loads(text)
    except ValueError:
        reply = None
    data = reply.get("data") if isinstance(reply, dict) else None
    if not isinstance(data, dict):
        raise RolloutError("resources", f"no OpenEnv environment: it answered {text[:200]!r}", retryable=False)
    if reply["type"] == "observation":
        return data
    code, said = str(data.get("code", "")), str(data.get("message", ""))[:500]
    if code in REFUSALS:
        raise Refused(said)
    if code == FULL:
        raise _Full("resources", f"every place of the environment is taken: {said}", retryable=True)
    raise RolloutError("resources", f"the environment failed in a {kind}: {code}: {said}", retryable=False)
