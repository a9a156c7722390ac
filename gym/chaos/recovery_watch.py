"""How a stack comes back after a fault, while no command is typed: out of the routes, served again, healthy again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

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
        headers = {"authorization": f"Bearer {token}"} if token else {}
        new_each_time = httpx.Limits(max_keepalive_connections=0)  # as a caller that was not there before
        self._http = httpx.Client(
            base_url=router, headers=headers, timeout=PROBE_SECONDS, limits=new_each_time, trust_env=False
        )
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
        """Whatever the server itself says: one of another make may have no /healthz."""
        try:
            reply = self._http.get(f"/s/{instance}/healthz")
        except httpx.HTTPError:
            return False
        no_route = reply.status_code == httpx.codes.NOT_FOUND and reply.content.startswith(NO_ROUTE)
        return not no_route and reply.status_code not in GATEWAY


class Outage:
    """When a replica was out of the routes; None: not yet."""

    seconds: float | None = None
