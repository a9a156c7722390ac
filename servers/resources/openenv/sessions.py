"""OpenEnv's WebSocket: a connection is a session of one environment, which is reset, stepped and closed.

Who is to blame is decided here: `Refused` is for the policy to read, every other error is a failure of the rollout.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any, Self

import aiohttp
from blame import is_of_action, read_details, shown_details

from gym.wire.failures import RolloutError

LARGEST = 64 << 20  # bytes of a message
PAUSE_SECONDS = 0.5  # between two tries for a place
CLOSE_SECONDS = 5.0
TIMES = aiohttp.ClientWSTimeout(ws_close=CLOSE_SECONDS)
# The server of openenv 0.10 cannot write down what a validator of the action has raised, and ends the session instead.
CUT_OFF = "Unable to serialize unknown type"


class Refused(Exception):
    """The environment does not take that action."""


class EndedByAction(Refused):
    """It does not take that action either, and has ended the session over it."""


class NoPlace(RolloutError):
    """The environment has as many sessions as it takes."""


class OpenEnvClient:
    """One environment's server. Close it."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/").removesuffix("/ws")
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None), trust_env=False
        )

    async def aclose(self) -> None:
        await self._http.close()

    async def begin(self, reset: dict[str, Any], *, seconds: float) -> OpenEnvSession:
        """A session that is reset. Where every place is taken it waits for one.

        A reset that fails twice, where one without any fields succeeds, is the row's fault.
        """
        try:
            return await self._open("reset", reset, seconds)
        except EnvironmentFailed as error:
            if reset and await self._resets({}, seconds) and not await self._resets(reset, seconds):
                raise RolloutError("row", f"reset: the environment does not take it: {error.said}") from None
            raise

    async def ends_sessions(self, action: dict[str, Any], *, seconds: float) -> bool:
        """Whether the environment ends a session over that action where nothing has happened in it yet."""
        try:
            session = await self._open("step", action, seconds)
        except EndedByAction:
            return True
        except (Refused, EnvironmentFailed):
            return False
        await session.aclose()
        return False

    async def action_schema(self, *, seconds: float) -> dict[str, Any]:
        """What its actions must look like, as JSON schema."""
        address = f"{self.url}/schema"
        try:
            async with asyncio.timeout(seconds), self._http.get(address) as reply:
                schema = json.loads(await reply.read())["action"]
        except TimeoutError:
            raise RolloutError("timeout", f"{address} did not answer within {seconds:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            raise _gone(address, error) from None
        except (ValueError, KeyError, TypeError):
            schema = None
        if not isinstance(schema, dict):
            raise RolloutError("resources", f"{address} has no schema of an action", retryable=False)
        return schema

    async def _resets(self, reset: dict[str, Any], seconds: float) -> bool:
        try:
            session = await self._open("reset", reset, seconds)
        except EnvironmentFailed:
            return False
        await session.aclose()
        return True

    async def _open(self, kind: str, data: dict[str, Any], seconds: float) -> OpenEnvSession:
        why = "it did not answer"
        try:
            async with asyncio.timeout(seconds):
                while True:
                    session = await OpenEnvSession.connect(self, self._http)
                    try:
                        session.first = await session.ask(kind, data)
                        return session
                    except BaseException as error:
                        await session.aclose()
                        if not isinstance(error, NoPlace):
                            raise
                        why = str(error)
                    await asyncio.sleep(PAUSE_SECONDS)
        except TimeoutError:
            raise RolloutError("timeout", f"{self.url}: no episode began within {seconds:g} s: {why}") from None


class OpenEnvSession:
    def __init__(self, client: OpenEnvClient, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.first: dict[str, Any] = {}  # what its reset has answered
        self._client = client
        self._socket = socket
        self._usable = True
        self._replies: asyncio.Queue[str | None] = asyncio.Queue()  # None at the end of the connection
        # It reads while the policy thinks as well: who does not answer a ping in that time is cut off.
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def connect(cls, client: OpenEnvClient, http: aiohttp.ClientSession) -> Self:
        address = client.url + "/ws"
        try:
            return cls(client, await http.ws_connect(address, max_msg_size=LARGEST, timeout=TIMES))
        except (aiohttp.ClientError, OSError) as error:
            raise _gone(address, error) from None

    async def step(self, action: dict[str, Any], *, seconds: float) -> dict[str, Any]:
        try:
            async with asyncio.timeout(seconds):
                return await self.ask("step", action)
        except TimeoutError:
            raise RolloutError("timeout", f"the environment did not answer a step within {seconds:g} s") from None
        except EndedByAction:
            if await self._client.ends_sessions(action, seconds=seconds):
                raise
            what = "the environment failed in a step, and its server cannot write down how"
            raise RolloutError("resources", what, retryable=False) from None

    async def ask(self, kind: str, data: dict[str, Any]) -> dict[str, Any]:
        """What it answers. Once an answer was not waited for there is none: it would be taken for the next one's."""
        text = None
        if self._usable:
            self._usable = False
            with suppress(aiohttp.ClientError, OSError):
                await self._socket.send_str(json.dumps({"type": kind, "data": data}))
                text = await self._replies.get()
        if text is None:
            raise RolloutError("resources", f"the environment closed the connection in a {kind}", retryable=True)
        self._usable = True
        return _read_reply(text, kind, data)

    async def aclose(self) -> None:
        with suppress(aiohttp.ClientError, OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                if self._usable and not self._socket.closed:
                    await self._socket.send_str('{"type":"close"}')
                    await asyncio.wait([self._reader])  # it ends once the environment's side has closed
        self._reader.cancel()
        await asyncio.wait([self._reader])
        with suppress(aiohttp.ClientError, OSError):
            await self._socket.close()

    async def _read(self) -> None:
        try:
            async for message in self._socket:
                if message.type is not aiohttp.WSMsgType.TEXT:
                    break
                self._replies.put_nowait(message.data)
        finally:
            self._replies.put_nowait(None)


def _read_reply(text: str, kind: str, sent: dict[str, Any]) -> dict[str, Any]:
    try:
        reply = json.loads(text)
    except ValueError:
        reply = None
    data = reply.get("data") if isinstance(reply, dict) else None
    if not isinstance(data, dict):
        raise RolloutError("resources", f"no OpenEnv environment: it answered {text[:200]!r}", retryable=False)
    if reply.get("type") == "observation":
        return data
    code, said = str(data.get("code", "")), str(data.get("message", ""))[:500]
    if code == "CAPACITY_REACHED":
        raise NoPlace("resources", f"every place of the environment is taken: {said}", retryable=True)
    if kind == "step" and code == "SESSION_ERROR" and CUT_OFF in said:
        raise EndedByAction("the environment does not take it, and hung up over it")
    details = read_details(data.get("errors"))
    if code == "VALIDATION_ERROR" and kind == "step" and all(is_of_action(one, sent) for one in details):
        raise Refused(shown_details(details) or said)
    more = f": {shown_details(details)}" if details else ""
    raise EnvironmentFailed(kind, code, said + more)


class EnvironmentFailed(RolloutError):
    """What it raised itself, in its own words."""

    def __init__(self, kind: str, code: str, said: str) -> None:
        super().__init__("resources", f"the environment failed in a {kind}: {code}: {said}", retryable=False)
        self.said = said


def _gone(address: str, error: Exception) -> RolloutError:
    return RolloutError("resources", f"{address}: {str(error) or type(error).__name__}", retryable=True)
