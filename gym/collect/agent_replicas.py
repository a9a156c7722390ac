"""One address that takes rollouts of an agent, and who waits there.

Where only the router reaches it, the stack is asked whether it has vanished: the connection to the router cannot tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterable
from typing import Final

import orjson

from gym.http.peer_health import PeerVanished
from gym.http.pool import HttpClient, Reply

LOOK_SECONDS: Final = 1.0
LOOK_AGAIN_SECONDS: Final = 0.5  # when somebody is said to have vanished
# A console that was cut off itself takes everybody for vanished until it has asked again, which it does each second.
SURE_AFTER: Final = 1.2
TIMEOUT_SECONDS: Final = 2.0

Header = tuple[bytes, bytes]


class AgentReplica:
    """`id` is for one that the router leads to: "" where it is called directly, or where the router chooses."""

    __slots__ = ("awaited", "headers", "healthy", "id", "in_flight", "served", "shunned_until", "url", "vanished")

    def __init__(self, url: str, headers: tuple[Header, ...] = (), id: str = "") -> None:
        self.url = url
        self.headers = headers
        self.id = id
        self.healthy = True
        self.vanished = False
        self.in_flight = 0
        self.served = 0
        self.shunned_until = 0.0
        self.awaited: set[asyncio.Timeout] = set()

    async def wait_for(self, reply: Awaitable[Reply]) -> Reply:
        """Ends with `PeerVanished` when the replica is given up meanwhile."""
        if not self.id:
            return await reply
        end = asyncio.timeout(None)
        try:
            async with end:
                self.awaited.add(end)
                return await reply
        except TimeoutError:
            if end.expired():
                raise PeerVanished("the replica vanished or hangs: its stack hears nothing of it any more") from None
            raise
        finally:
            self.awaited.discard(end)

    def give_up(self) -> None:
        self.vanished = True
        for end in tuple(self.awaited):
            if not end.expired():
                end.reschedule(asyncio.get_running_loop().time())
        self.awaited.clear()


class VanishedCheck:
    """Asks the stack who has vanished while replies of routed replicas are awaited."""

    def __init__(self, http: HttpClient, url: str, headers: tuple[Header, ...]) -> None:
        self._http = http
        self._url = url
        self._headers = headers
        self._said: dict[str, float] = {}  # by id: since when it is said to have vanished, without a break
        self._known = True  # an older stack does not tell

    async def look(self, replicas: Iterable[AgentReplica]) -> float:
        """Seconds to wait until the next look."""
        routed = [one for one in replicas if one.id]
        if not self._known or not any(one.vanished or one.awaited for one in routed):
            self._said.clear()
            return LOOK_SECONDS
        self._judge(routed, await self._ask())
        return LOOK_AGAIN_SECONDS if self._said else LOOK_SECONDS

    def _judge(self, routed: list[AgentReplica], vanished: Collection[str]) -> None:
        now = asyncio.get_running_loop().time()
        self._said = {id: self._said.get(id, now) for id in vanished}
        for one in routed:
            if one.id not in self._said:
                one.vanished = False
            elif now - self._said[one.id] >= SURE_AFTER:
                one.give_up()

    async def _ask(self) -> list[str]:
        """A stack that does not answer says nothing about its replicas."""
        try:
            reply = await self._http.request("GET", self._url, headers=self._headers, timeout=TIMEOUT_SECONDS)
            self._known = reply.status not in (404, 405)
            told = orjson.loads(reply.body)["vanished"] if reply.status == 200 else ()
            return [str(one) for one in told]
        except (OSError, TimeoutError, ValueError, KeyError, TypeError):
            return []
