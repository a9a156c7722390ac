"""Asks a peer's /healthz beside replies that it lets wait: one question for a peer, however many wait for it.

TCP notices what vanished (gym.http.keepalive). A process that hangs or is paused still has a kernel that acknowledges
and accepts, so only its own silence tells. A loop that is blocked is as silent, but not for long: what one blocked for
ten seconds would still answer is waited for, and who never answered while it worked is given all the time there is.
"""

from __future__ import annotations

import asyncio
import errno
import math
from collections.abc import Collection, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from gym.http.keepalive import UNACKNOWLEDGED_SECONDS, keep_transport_alive

LOOK_SECONDS: Final = 1.0  # how often it is looked which replies are awaited for long
ASK_AFTER: Final = 3.0  # seconds that a reply is awaited before anybody asks; shorter calls cost nothing
ASK_EVERY: Final = 3.0
SILENT_SECONDS: Final = 12.0  # since the first health request without an answer: accepted, but not read
UNREACHED_SECONDS: Final = 5.0  # no question found a way there, and the awaiting connection heard nothing either
RETURN_EVERY: Final = 1.0  # how often one that was lost is asked whether it is back
FORGET_SECONDS: Final = 600.0

VANISHED: Final = frozenset((errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN))
# Without a Host: our servers do not need it, and the router refuses it itself instead of asking the console behind it,
# which may hang while the rollouts that pass the router go on.
QUESTION: Final = b"GET /healthz HTTP/1.1\r\nconnection: close\r\n\r\n"
VANISHED_WORDS: Final = "the peer vanished: nothing was heard of it any more ({})"

Peer = tuple[bool, str, int]  # TLS, host, port


class PeerVanished(ConnectionError):
    """The peer stopped answering while its reply was awaited."""


class AwaitedConnection(Protocol):
    """A connection on which a reply may be awaited."""

    @property
    def peer(self) -> Peer: ...

    @property
    def waits(self) -> bool: ...

    @property
    def asked(self) -> float: ...

    def heard_within(self, seconds: float) -> bool: ...

    def give_up(self, error: PeerVanished) -> None: ...


@dataclass(slots=True)
class SilentPeer:
    """A peer that does not answer, since its first unanswered health request."""

    began: float
    asked: float  # when the last health request was sent
    reached: bool = False  # its kernel accepted a health request
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def silent(self, now: float) -> bool:
        return now - self.began >= SILENT_SECONDS

    def unreached(self, now: float) -> bool:
        return not self.reached and now - self.began >= UNREACHED_SECONDS


class PeerHealth:
    """Of one client, on one event loop. One timer for all its requests: each would pay for its own."""

    def __init__(self, *, asks: bool = True, ask_every: float | None = None) -> None:
        self.lost: dict[Peer, float] = {}  # since when
        self.replied: dict[Peer, float] = {}  # when its last whole reply came: a peer that answers others is there
        self.questions = 0
        self._asks = asks
        self._ask_every = ask_every
        self._due = 0.0  # when the timer rings
        self._open: set[AwaitedConnection] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._answering: set[Peer] = set()  # they answer /healthz while they work
        self._silent_peers: dict[Peer, SilentPeer] = {}
        self._answered: dict[Peer, float] = {}
        self._asking: set[asyncio.Task[None]] = set()

    def expect_answers(self, peer: Peer) -> None:
        """A server of this SDK: silence means something from the first time on."""
        self._answering.add(peer)

    def watch(self, connection: AwaitedConnection) -> None:
        """Until it leaves."""
        if self._asks and not connection.peer[0]:  # what is behind TLS does not belong to a stack
            self._open.add(connection)
            self._look_later()

    def leave(self, connection: AwaitedConnection, *, vanished: bool) -> None:
        if vanished and connection in self._open and not self._replied_lately(connection.peer):
            self._lose(connection.peer)
        self._open.discard(connection)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for task in tuple(self._asking):
            task.cancel()
        self._silent_peers.clear()
        self.lost.clear()

    def _replied_lately(self, peer: Peer) -> bool:
        """A kernel with too many new connections forgets some of them: the peer of the others has not vanished."""
        lately = asyncio.get_running_loop().time() - UNACKNOWLEDGED_SECONDS
        return self.replied.get(peer, -math.inf) > lately

    def _look_later(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._due = loop.time() + LOOK_SECONDS
            self._timer = loop.call_at(self._due, self._look_around)

    def _look_around(self) -> None:
        now = asyncio.get_running_loop().time()
        self._forgive(now - self._due)
        for peer, doubt in self._silent_peers.items():
            doubt.began = max(doubt.began, self.replied.get(peer, 0.0))
        awaited: dict[Peer, list[AwaitedConnection]] = {}
        for one in self._open:
            if one.waits and now - one.asked >= ASK_AFTER:
                awaited.setdefault(one.peer, []).append(one)
        for peer, connections in awaited.items():
            self._judge(peer, connections, now)
        self._keep_asking(awaited.keys(), now)
        self._timer = None
        if self._open or self.lost:
            self._look_later()

    def _forgive(self, late: float) -> None:
        """After this process was stopped or blocked: unread answers are not silence of the peer."""
        if late > LOOK_SECONDS:
            for doubt in self._silent_peers.values():
                doubt.began += late
                doubt.asked += late

    def _judge(self, peer: Peer, connections: list[AwaitedConnection], now: float) -> None:
        doubt = self._look(peer, now, self._ask_every or ASK_EVERY)
        if doubt is None:
            return
        gone, why = connections, f"it accepts connections, and has not even answered /healthz in {SILENT_SECONDS:g} s"
        if peer not in self._answering or not doubt.silent(now):
            gone = [one for one in connections if doubt.unreached(now) and not one.heard_within(UNREACHED_SECONDS)]
            why = "no connection to it can be made any more"
        if gone:
            self._lose(peer)
        for one in gone:
            one.give_up(PeerVanished(f"the peer vanished or hangs: {why}"))

    def _look(self, peer: Peer, now: float, every: float) -> SilentPeer | None:
        """Asks, when it is time to. None while it answers. Older questions stay open: a slow answer is one."""
        doubt = self._silent_peers.get(peer)
        if doubt is None:
            if peer in self._answered and now - self._answered[peer] < every:
                return None
            doubt = self._silent_peers[peer] = SilentPeer(now, now)
            self._ask(peer, doubt)
        elif now - doubt.asked >= every:
            doubt.asked = now
            self._ask(peer, doubt)
        return doubt

    def _lose(self, peer: Peer) -> None:
        """Other replicas are preferred until it answers."""
        self._end(peer)
        self.lost.setdefault(peer, asyncio.get_running_loop().time())
        self._look_later()

    def _keep_asking(self, awaited: Collection[Peer], now: float) -> None:
        """Checks lost peers until they answer; forgets silent ones that no request waits for."""
        for peer in [one for one in self._silent_peers if one not in awaited and one not in self.lost]:
            self._end(peer)
        for peer, since in tuple(self.lost.items()):
            if now - since > FORGET_SECONDS:
                self._end(peer)
                del self.lost[peer]
            else:
                self._look(peer, now, RETURN_EVERY)

    def _end(self, peer: Peer) -> None:
        doubt = self._silent_peers.pop(peer, None)
        for task in doubt.tasks if doubt else ():
            task.cancel()

    def _ask(self, peer: Peer, doubt: SilentPeer) -> None:
        self.questions += 1
        task = self._spawn(self._question(peer, doubt))
        doubt.tasks.add(task)
        task.add_done_callback(doubt.tasks.discard)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)
        return task

    async def _question(self, peer: Peer, doubt: SilentPeer) -> None:
        """Any answer is one, a refusal too: the peer is there, and the awaiting connection shows its own end."""
        try:
            async with asyncio.timeout(SILENT_SECONDS + ASK_EVERY):
                spoke = await _ask_healthz(peer, doubt)
        except ConnectionError:
            spoke = False
        except (OSError, TimeoutError):
            return
        if self._silent_peers.get(peer) is not doubt:
            return
        if spoke:
            self._answering.add(peer)
        self._answered[peer] = asyncio.get_running_loop().time()
        self.lost.pop(peer, None)
        del self._silent_peers[peer]
        for task in doubt.tasks - {asyncio.current_task()}:
            task.cancel()


async def _ask_healthz(peer: Peer, doubt: SilentPeer) -> bool:
    """True when it answered, False when it closed the connection without a word."""
    _, host, port = peer
    loop = asyncio.get_running_loop()
    transport, question = await loop.create_connection(_HealthRequest, host, port)
    doubt.reached = True
    try:
        keep_transport_alive(transport)
        transport.write(QUESTION)
        return await question.answered
    finally:
        transport.abort()


class _HealthRequest(asyncio.Protocol):
    def __init__(self) -> None:
        self.answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self._settle(spoke=True)

    def connection_lost(self, exc: Exception | None) -> None:
        if exc is None or isinstance(exc, ConnectionError):
            self._settle(spoke=False)

    def _settle(self, *, spoke: bool) -> None:
        with suppress(asyncio.InvalidStateError):
            self.answered.set_result(spoke)


def is_vanished(error: Exception | None) -> bool:
    """What a kernel says of a connection of which it heard nothing any more."""
    return isinstance(error, OSError) and error.errno in VANISHED
