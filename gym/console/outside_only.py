"""Pages are for people outside of the stack: a server inside, and a policy that has it fetch an address, sees none.

Rollouts hold the answers that verifiers expect. Where servers are containers, only the router may ask for pages, on
behalf of who has no name in the stack's network; it passes on none at its inside entry point.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from gym.http.names import NameLookups

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
        self._names = NameLookups()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and _is_page(scope["path"]) and not await self._comes_from_router(scope):
            await JSONResponse(REFUSAL, 403)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _comes_from_router(self, scope: Scope) -> bool:
        host = (scope.get("client") or ("",))[0]
        if host not in self._known or time.monotonic() - self._looked > KNOWN_SECONDS:
            self._known, self._looked = await self._addresses(self._router), time.monotonic()
            self._inside.clear()
        # The router writes this header itself. Containers of a network have names in it, its gateway has none.
        asker = dict(scope["headers"]).get(b"x-real-ip", b"").decode("latin-1")
        return host in self._known and not (asker and await self._is_inside(asker, host))

    async def _is_inside(self, address: str, router: str) -> bool:
        if address not in self._inside:
            network = (await self._name(router)).partition(".")[2]
            self._inside[address] = bool(network) and (await self._name(address)).partition(".")[2] == network
        return self._inside[address]

    async def _addresses(self, name: str) -> frozenset[str]:
        """None that answers: no caller is the router."""
        try:
            return frozenset(await self._names.find(name))
        except OSError:
            return frozenset()

    async def _name(self, address: str) -> str:
        """Empty where it has none."""
        try:
            async with asyncio.timeout(NAME_SECONDS):
                return await self._names.name_of(address)
        except OSError:  # TimeoutError is one
            return ""


def _is_page(path: str) -> bool:
    return path == "/view" or path.startswith("/view/")
