"""Checks whether replicas can serve: repeatedly, each in its own task, so that a silent one does not delay the others.

Who refuses is out at the next look; who keeps silent may be busy, and stays for a while.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Collection
from typing import Final

from gym.console.engine_dns import ContainerAddress
from gym.http.pool import HttpClient, NotSent
from gym.wire.stack_names import PORT

HEALTHY_SECONDS: Final = 1.0  # between two questions to a healthy one
UNHEALTHY_SECONDS: Final = 0.3
ASK_SECONDS: Final = 3.0
CLOSING: Final = ((b"connection", b"close"),)  # one who is about to end still answers on connections that it has
OURS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
SILENT_SECONDS: Final = 10.0  # without an answer, before it counts as dead


class Health:
    """One watcher for each place. `changed` is set whenever an answer is another than before."""

    def __init__(self, client: HttpClient, port: int = PORT) -> None:
        self._client = client
        self._port = port
        self._watchers: dict[ContainerAddress, Watcher] = {}
        self._tasks: dict[ContainerAddress, asyncio.Task[None]] = {}
        self.changed = asyncio.Event()

    def watch(
        self,
        ours: Collection[ContainerAddress],
        others: Collection[ContainerAddress],
        healthy_before: Collection[str] = (),
    ) -> None:
        """These and no others. Of `ours` we know what /healthz says; of others any answer is a good one. Hosts that
        were healthy before count as such until they are found not to be."""
        for place in self._watchers.keys() - {*ours, *others}:
            del self._watchers[place]
            self._tasks.pop(place).cancel()
        for place in {*ours, *others} - self._watchers.keys():
            url, trusted = _url(place, self._port), place.host in healthy_before
            watcher = Watcher(url, self._client, ours=place in ours, tell=self.changed.set, healthy=trusted)
            self._watchers[place] = watcher
            self._tasks[place] = asyncio.get_running_loop().create_task(watcher.run(), name=f"health of {place.host}")

    def is_healthy(self, place: ContainerAddress) -> bool:
        watcher = self._watchers.get(place)
        return watcher is not None and watcher.healthy

    async def aclose(self) -> None:
        tasks = tuple(self._tasks.values())
        self.watch((), ())
        if tasks:
            await asyncio.wait(tasks)


class Watcher:
    def __init__(
        self, url: str, client: HttpClient, *, ours: bool, tell: Callable[[], None], healthy: bool = False
    ) -> None:
        self._url = url
        self._client = client
        self._ours = ours
        self._tell = tell
        self._heard = asyncio.get_running_loop().time() if healthy else float("-inf")
        self.healthy = healthy

    async def run(self) -> None:
        while True:
            before, self.healthy = self.healthy, await self._ask()
            if self.healthy != before:
                self._tell()
            await asyncio.sleep(HEALTHY_SECONDS if self.healthy else UNHEALTHY_SECONDS)

    async def _ask(self) -> bool:
        now = asyncio.get_running_loop().time
        try:
            reply = await self._client.request("GET", self._url, headers=CLOSING, timeout=ASK_SECONDS)
        except OSError as error:  # TimeoutError is one
            return _is_silence(error) and self.healthy and now() - self._heard < SILENT_SECONDS
        except ValueError:
            return not self._ours
        self._heard = now()
        return reply.status == 200 or (not self._ours and reply.status != 503)


def _is_silence(error: OSError) -> bool:
    """No answer in time, or no means of our own to ask: neither proves that the replica is gone."""
    if isinstance(error, TimeoutError):
        return True
    cause = error.__cause__ if isinstance(error, NotSent) else error
    return cause is None or (isinstance(cause, OSError) and cause.errno in OURS)


def _url(place: ContainerAddress, port: int) -> str:
    """By its address: the name may mean another container by the time the question is asked."""
    host = f"[{place.address}]" if ":" in place.address else place.address
    return f"http://{host}:{place.shared_port or port}/healthz"
