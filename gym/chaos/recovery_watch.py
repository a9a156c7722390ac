"""How a stack comes back after a fault, while no command is typed: out of the routes, served again, healthy again."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gym.wire.discovery import Discovery
from gym.wire.route_files import read_discovery

GIVE_UP_SECONDS: Final = 180.0
LOOK_SECONDS: Final = 0.02
PROBE_SECONDS: Final = 3.0
GATEWAY: Final = frozenset((502, 503, 504))
NO_ROUTE: Final = b"404 page not found"


@dataclass(frozen=True)
class Recovery:
    """In seconds; None: it never was so."""

    out: float | None  # from the begin of the fault until a replica was out of the routes
    served: float | None  # from its end until every instance was served through the router
    whole: float | None  # from its end until every replica was healthy in the discovery document


class RecoveryWatch:
    """`before` is how many replicas of each instance are healthy while nothing is disturbed."""

    def __init__(self, discovery: Path, router: str, token: str = "") -> None:
        self._path = discovery
        self._router = urlsplit(router)
        self._token = token
        self.before = self._healthy()

    @contextmanager
    def outage(self) -> Iterator[Outage]:
        """Looks at the routes beside the block, in which the fault comes: their first change may be short."""
        seen = Outage()
        over = threading.Event()
        looker = threading.Thread(target=self._look, args=(seen, over), name="routes")
        looker.start()
        try:
            yield seen
        finally:
            over.set()
            looker.join()

    def wait(self, seen: Outage, goes_on: Callable[[], bool]) -> Recovery:
        """From now on. `goes_on` is asked, once the routes are whole, whether the stack itself finds so."""
        began = time.monotonic()
        missing = list(self.before)
        served = None
        while time.monotonic() - began < GIVE_UP_SECONDS:
            missing = [name for name in missing if not self._answers(name)]
            if served is None and not missing:
                served = time.monotonic() - began
            if not missing and self.is_whole() and goes_on():
                return Recovery(seen.seconds, served, time.monotonic() - began)
            time.sleep(LOOK_SECONDS)
        return Recovery(seen.seconds, served, None)

    def is_whole(self) -> bool:
        healthy = self._healthy()
        return all(healthy.get(name, 0) >= count for name, count in self.before.items())

    def _look(self, seen: Outage, over: threading.Event) -> None:
        began = time.monotonic()
        while not over.wait(LOOK_SECONDS):
            if not self.is_whole():
                seen.seconds = time.monotonic() - began
                return

    def _healthy(self) -> Mapping[str, int]:
        found = read_discovery(self._path) or Discovery(stack="")
        return {name: sum(one.healthy for one in view.replicas) for name, view in found.instances.items()}

    def _answers(self, instance: str) -> bool:
        """Whatever the server itself says: one of another make may have no /healthz.

        Each look has a connection of its own, for which httpx would make a TLS context.
        """
        connection = http.client.HTTPConnection(self._router.hostname or "", self._router.port, timeout=PROBE_SECONDS)
        headers = {"authorization": f"Bearer {self._token}"} if self._token else {}
        try:
            connection.request("GET", f"/s/{instance}/healthz", headers=headers)
            reply = connection.getresponse()
            return reply.status not in GATEWAY and not (reply.status == 404 and reply.read(64).startswith(NO_ROUTE))
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


class Outage:
    """When a replica was out of the routes; None: not yet."""

    seconds: float | None = None
