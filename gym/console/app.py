"""The console as an ASGI app: `make_app(deps)`, so that a test gives it what it wants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import unquote

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from gym import __version__, labels
from gym.console import collections, views
from gym.console.collections import Collections
from gym.console.guard import NotFromHere, check_origin, is_admitted
from gym.console.origin import find_origin
from gym.console.page import Page
from gym.console.probes import Probe
from gym.console.rollouts import RolloutService, error_body
from gym.console.sources import ServerFacts, Sources
from gym.errors import GymError, InfraError, UserError
from gym.wire.discovery import Discovery

HEALTH = ("/healthz", "/livez", "/readyz", "/health")
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
NO_STORE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
CHALLENGES = ('Bearer realm="gym"', 'Basic realm="gym: any user name, the token as password", charset="UTF-8"')


class Probing(Protocol):
    async def probe(self, discovery: Discovery, facts: Mapping[str, ServerFacts]) -> Mapping[str, Probe]: ...


@dataclass(frozen=True)
class Deps:
    sources: Sources
    prober: Probing
    page: Page
    token: str = field(default="", repr=False)
    board: Collections = field(default_factory=Collections)


def make_app(deps: Deps) -> Starlette:
    console = Console(deps)
    routes = [
        Route("/", console.front),
        Route("/servers", console.servers),
        Route("/discovery", console.discovery),
        Route("/global_config_dict_yaml", console.global_config),
        Route("/server_instances", console.server_instances),
        Route("/auth", console.auth),
        Route("/collections", console.collections),
        Route("/collections", console.hear, methods=["POST"]),
        Route("/rollouts", console.rollouts, methods=["POST"]),
        *(Route(path, console.health) for path in HEALTH),
        Route("/s/{rest:path}", console.unrouted, methods=METHODS),
        Route("/{rest:path}", console.nowhere, methods=METHODS),
    ]
    return Starlette(routes=routes)


class Console:
    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    async def front(self, request: Request) -> Response:
        """A page for people; for programs what a head server says there."""
        if "text/html" in request.headers.get("accept", ""):
            page = self._deps.page
            return Response(page.html, headers={**NO_STORE, **page.headers}, media_type="text/html")
        return _json({"status": "ok", "stack": self._deps.sources.config().stack, "version": __version__})

    async def servers(self, request: Request) -> Response:
        return await self._live(request, views.servers_view)

    async def server_instances(self, request: Request) -> Response:
        return await self._live(request, views.server_instances_view)

    async def discovery(self, request: Request) -> Response:
        found = await self._deps.sources.discovery()
        return Response(found.model_dump_json(), headers=NO_STORE, media_type="application/json")

    async def global_config(self, request: Request) -> Response:
        """A JSON string that holds YAML: both kinds of client that exist can read it."""
        found = await self._deps.sources.discovery()
        return _json(views.config_yaml(found, self._deps.sources.config(), find_origin(request.headers, found.router)))

    async def health(self, request: Request) -> Response:
        return _json({"status": "ok"})

    async def auth(self, request: Request) -> Response:
        """The router asks before it lets anyone in from wider than loopback."""
        if is_admitted(request.headers.get("authorization", ""), self._deps.token):
            return Response(status_code=200, headers=NO_STORE)
        told = {
            "error": "this stack asks for its token",
            "how": f"send `Authorization: Bearer $GYM_TOKEN`, or set {labels.ENV_TOKEN} for gym",
        }
        refusal = _json(told, status=401)
        for challenge in CHALLENGES:
            refusal.headers.append("www-authenticate", challenge)
        return refusal

    async def collections(self, request: Request) -> Response:
        """What collects now, on any machine."""
        return _json({"collections": self._deps.board.running()})

    async def hear(self, request: Request) -> Response:
        """A collector says how it is getting on."""
        try:
            check_origin(request.headers)
            self._deps.board.hear(await _read_small(request, collections.MOST_BYTES))
        except GymError as error:
            return _refusal(error)
        return Response(status_code=204, headers=NO_STORE)

    async def rollouts(self, request: Request) -> Response:
        """Rows in, rollouts out as they finish."""
        try:
            check_origin(request.headers)
            service = RolloutService(self._deps.sources, self._deps.board, self._deps.token)
            lines = await service.open(request)
        except GymError as error:
            return _refusal(error)
        return StreamingResponse(lines, headers=NO_STORE, media_type="application/x-ndjson")

    async def unrouted(self, request: Request) -> Response:
        """Below /s/ the router sends us what it has no server for."""
        found, config = await self._deps.sources.discovery(), self._deps.sources.config()
        asked = request.scope["path"].removeprefix(labels.SERVER_PREFIX)
        known = views.instances(found, config)
        name = next((one for one in known if _is_below(asked, unquote(views.prefix_of(one, config)))), None)
        if name is None:
            return _json(views.unknown_instance(asked.partition("/")[0][:200], known), status=404)
        probes = await self._deps.prober.probe(found, config.servers)
        failure = views.unreachable(name, known[name], probes)
        headers = {labels.HEADER_ERROR: failure.kind}
        return Response(failure.to_body(), failure.status, {**NO_STORE, **headers}, "application/json")

    async def nowhere(self, request: Request) -> Response:
        pages = ["/", "/servers", "/discovery", "/collections", "/rollouts", "/metrics"]
        pages += ["/global_config_dict_yaml", "/server_instances"]
        return _json({"error": f"nothing at {request.url.path[:200]}", "try": pages}, status=404)

    async def _live(self, request: Request, view: Callable[..., Any]) -> Response:
        found, config = await self._deps.sources.discovery(), self._deps.sources.config()
        probes = await self._deps.prober.probe(found, config.servers)
        return _json(view(found, config, probes, find_origin(request.headers, found.router)))


async def _read_small(request: Request, most: int) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise UserError(f"the body is larger than {most} bytes")
    return body


def _refusal(error: GymError) -> Response:
    """403 for who may not, 422 for what is wrong with the question, 503 for what is wrong here."""
    status = 403 if isinstance(error, NotFromHere) else 503 if isinstance(error, InfraError) else 422
    return Response(error_body(error), status, NO_STORE, "application/json")


def _is_below(asked: str, prefix: str) -> bool:
    segment = prefix.removeprefix(labels.SERVER_PREFIX)
    return asked == segment or asked.startswith(f"{segment}/")


def _json(value: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(value, default=str), status, NO_STORE, "application/json")
