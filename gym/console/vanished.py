"""Which agents' replicas have vanished, for callers that reach them through the router alone.

The router's connection to a replica that was cut off stays open for minutes, and so does its caller's to the router.
"""

from __future__ import annotations

import asyncio
from typing import Final

from gym.http.dial import parse_url
from gym.http.peer_health import Peer, PeerHealth, PeerVanished
from gym.wire.discovery import Discovery, InstanceView

ASK_EVERY: Final = 0.5  # at every look
ASKED_SECONDS: Final = 30.0  # no request for so long: the replicas are not asked


class Vanished:
    """`look` is asked again and again, and begins to know with the first time."""

    def __init__(self) -> None:
        self._health = PeerHealth(ask_every=ASK_EVERY)
        self._watched: dict[str, Watched] = {}

    def look(self, discovery: Discovery) -> list[str]:
        """Ids of replicas. One that refuses is not among them: its kernel resets its connections by itself."""
        now = asyncio.get_running_loop().time()
        urls = {one.id: (one.url, view) for view in discovery.instances.values() for one in view.replicas if one.route}
        for id in self._watched.keys() - urls.keys():
            self._health.leave(self._watched.pop(id), vanished=False)
        for id, (url, view) in urls.items():
            self._watch(id, url, view).wanted = now
        return [id for id, one in self._watched.items() if one.peer in self._health.lost]

    def close(self) -> None:
        self._health.close()

    def _watch(self, id: str, url: str, view: InstanceView) -> Watched:
        peer = parse_url(url).peer
        known = self._watched.get(id)
        if known is not None and known.peer == peer:
            return known
        if known is not None:
            self._health.leave(known, vanished=False)
        if view.sdk:
            self._health.expect_answers(peer)
        watched = self._watched[id] = Watched(peer)
        self._health.watch(watched)
        return watched


class Watched:
    """Instead of a connection on which another task awaits a reply."""

    asked = float("-inf")

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.wanted = 0.0

    @property
    def waits(self) -> bool:
        return asyncio.get_running_loop().time() - self.wanted < ASKED_SECONDS

    def heard_within(self, seconds: float) -> bool:
        return False

    def give_up(self, error: PeerVanished) -> None:
        """Who awaits it learns so by asking."""
