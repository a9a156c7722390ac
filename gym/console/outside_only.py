"""Pages are for people outside of the stack: a server inside, and a policy that has it fetch an address, sees none.

Rollouts hold the answers that verifiers expect. Where servers are containers, only the router may ask for pages, on
behalf of who has no name in the stack's network; it passes on none at its inside entry point.
"""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

KNOWN_SECONDS: Final = 2.0
NAME_SECONDS: Final = 1.0
REFUSAL: Final = {"error": "the stack's pages are for people: ask the router's address on its host, not from inside"}


class OutsideOnly:
    def __init__(self, app: ASGIApp, router: str) -> None:
        """`router`: its name in the network."""
        self._app = app
        self._router = router
        self._known: frozenset[str] = frozenset()
        self._looked = float("-inf")
        self._inside: dict[str, bool] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _is_page(scope["path"]) and not await self._comes_from_router(scope):
            await JSONResponse(REFUSAL, 403)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _comes_from_router(self, scope: Scope) -> bool:
        host = (scope.get("client") or ("",))[0]
        if host not in self._known or time.monotonic() - self._looked > KNOWN_SECONDS:
            self._known, self._looked = await _addresses(self._router), time.monotonic()
            self._inside.clear()
        # The router writes this header itself. Containers of a network have names in it, its gateway has none.
        asker = dict(scope["headers"]).get(b"x-real-ip", b"").decode("latin-1")
        return host in self._known and not (asker and await self._is_inside(asker, host))

    async def _is_inside(self, address: str, router: str) -> bool:
        if address not in self._inside:
            network = (await _name(router)).partition(".")[2]
            self._inside[address] = bool(network) and (await _name(address)).partition(".")[2] == network
        return self._inside[address]


def _is_page(path: str) -> bool:
    return path == "/view" or path.startswith("/view/")


async def _addresses(name: str) -> frozenset[str]:
    """None that answers: no caller is the router."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return frozenset()
    return frozenset(str(one[4][0]) for one in found)


async def _name(address: str) -> str:
    """Empty where it has none."""
    try:
        async with asyncio.timeout(NAME_SECONDS):
            return (await asyncio.get_running_loop().getnameinfo((address, 0), socket.NI_NAMEREQD))[0]
    except (OSError, TimeoutError):
        return ""
