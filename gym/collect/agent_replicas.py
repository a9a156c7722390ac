"""The replicas of an agent, as a collector calls them, and the requests that wait for each.

Where only the router reaches one, the stack is asked whether it has vanished: the connection to the router hides that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection, Iterable
from typing import Final

import orjson

from gym.http.peer_health import PeerVanished
from gym.http.pool import HttpClient, Reply

CHECK_SECONDS: Final = 1.0
SUSPECT_SECONDS: Final = 0.5  # while a replica is reported as vanished
# A console that was cut off itself reports every replica as vanished until its next check, one second later.
SURE_AFTER: Final = 1.2
TIMEOUT_SECONDS: Final = 2.0

Header = tuple[bytes, bytes]


class AgentReplica:
    """`id` is for one behind the router: "" where it is called directly, or where the router chooses."""

    __slots__ = (
        *("awaited", "headers", "healthy", "id", "in_flight", "run_url", "served", "avoided_until", "url", "vanished"),
    )

    def __init__(self, url: str, headers: tuple[Header, ...] = (), id: str = "") -> None:
        self.url = url
        self.run_url = url + "/run"
        self.headers = headers
        self.id = id
        self.healthy = True
        self.vanished = False
        self.in_flight = 0
        self.served = 0
        self.avoided_until = 0.0
        self.awaited: set[asyncio.Timeout] = set()

    @property
    def load(self) -> tuple[int, ...]:
        return self.in_flight, self.served

    async def wait_for(self, reply: Awaitable[Reply]) -> Reply:
        """Raises `PeerVanished` when the replica is given up meanwhile. For one behind the router."""
        timeout = asyncio.timeout(None)
        try:
            async with timeout:
                self.awaited.add(timeout)
                return await reply
        except TimeoutError:
            if timeout.expired():
                raise PeerVanished("the replica vanished or hangs: its stack gets no sign of it any more") from None
            raise
        finally:
            self.awaited.discard(timeout)

    def give_up(self) -> None:
        self.vanished = True
        for timeout in tuple(self.awaited):
            if not timeout.expired():
                timeout.reschedule(asyncio.get_running_loop().time())
        self.awaited.clear()


class VanishedCheck:
    """Asks the stack which replicas have vanished, while replies of routed replicas are awaited."""

    def __init__(self, http: HttpClient, url: str, headers: tuple[Header, ...]) -> None:
        self._http = http
        self._url = url
        self._headers = headers
        self._reported: dict[str, float] = {}  # by id: since when it has been reported as vanished, without a break
        self._supported = True  # an older stack has no such route

    async def check(self, replicas: Iterable[AgentReplica]) -> float:
        """Returns the seconds to wait until the next check."""
        routed = [one for one in replicas if one.id]
        if not self._supported or not any(one.vanished or one.awaited for one in routed):
            self._reported.clear()
            return CHECK_SECONDS
        self._judge(routed, await self._ask())
        return SUSPECT_SECONDS if self._reported else CHECK_SECONDS

    def _judge(self, routed: list[AgentReplica], vanished: Collection[str]) -> None:
        now = asyncio.get_running_loop().time()
        self._reported = {id: self._reported.get(id, now) for id in vanished}
        for one in routed:
            if one.id not in self._reported:
                one.vanished = False
            elif now - self._reported[one.id] >= SURE_AFTER:
                one.give_up()

    async def _ask(self) -> list[str]:
        """A stack that does not answer says nothing about its replicas."""
        try:
            reply = await self._http.request("GET", self._url, headers=self._headers, timeout=TIMEOUT_SECONDS)
            self._supported = reply.status not in (404, 405)
            vanished = orjson.loads(reply.body)["vanished"] if reply.status == 200 else ()
            return [str(one) for one in vanished]
        except (OSError, TimeoutError, ValueError, KeyError, TypeError):
            return []
