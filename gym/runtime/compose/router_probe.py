"""Whether a replica without a health check of its own answers: the router is asked.

By http.client, which `gym.engine` has loaded: httpx takes 75 ms to import, and a TLS context for each client.
"""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from gym.plan.slugs import server_path
from gym.runtime.compose.containers import Container
from gym.runtime.compose.plan_names import KnownPlan, ServiceNames
from gym.wire.stack_names import ROUTER

if TYPE_CHECKING:
    from gym.plan.model import Service

NOT_READY: Final = frozenset({502, 503, 504})
ROUTED: Final = frozenset({200, 401})
SECONDS: Final = 2.0


def router_url(plan: KnownPlan) -> str:
    """Where a caller on this machine finds the router."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(plan.router.host, plan.router.host)
    return f"http://[{host}]:{plan.router.port}" if ":" in host else f"http://{host}:{plan.router.port}"


class RouterProbe(NamedTuple):
    plan: KnownPlan
    token: str = ""

    @property
    def url(self) -> str:
        return router_url(self.plan)

    def answers(self, container: Container) -> bool:
        """For what has no health check of its own: the router itself, and foreign images."""
        if container.health or container.state != "running":
            return True
        if container.service == ROUTER:  # it has read its files once it passes on to the console, or asks it for leave
            return self._get("/healthz") in ROUTED
        service = self.plan.service(container.instance)
        # What an override file brought: running is all that we can ask.
        return service is None or self.is_routed(service)

    def is_routed(self, service: Service | ServiceNames) -> bool:
        """The router passes a request on to it. Its answer does not matter, nor whether it knows the path: but what is
        answered 404 may be so by a router that has not read its files."""
        status = self._get(f"{server_path(service.name, service.slug)}/healthz")
        if status == 404:
            return self._get("/healthz") in ROUTED
        return status is not None and status not in NOT_READY

    def _get(self, path: str) -> int | None:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        router = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=SECONDS)
        try:
            router.request("GET", path, headers=headers)
            return router.getresponse().status
        except (OSError, http.client.HTTPException):
            return None
        finally:
            router.close()
