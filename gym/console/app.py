"""The console as an ASGI app: `make_app(deps)`, so that a test gives it what it wants."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, get_args
from urllib.parse import unquote

import orjson
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gym import __version__, labels
from gym.console import collections, views
from gym.console.collections import Collections
from gym.console.console_replies import asks_for_token, read_small, refusal_reply
from gym.console.console_token import is_admitted
from gym.console.discovery_sources import DiscoverySources, ServerFacts
from gym.console.late_pages import LatePages, MakeSections
from gym.console.origin import find_origin
from gym.console.outside_only import REFUSAL, OutsideOnly
from gym.console.pages.shell import NO_STORE, Section
from gym.console.probes import Probe
from gym.console.stack.log_receiver import LogReceiver
from gym.console.stack.stack_view import StackParts
from gym.console.upstream_addresses import MAX_BYTES, UpstreamAdmin
from gym.console.vanished import Vanished
from gym.errors import GymError, UserError
from gym.http.pool import HttpClient
from gym.wire.discovery import Discovery
from gym.wire.failures import NO_ROUTE, RolloutError
from gym.wire.foreign_pages import Why, refusal_words
from gym.wire.stack_names import LOG_PORT, ROUTER

if TYPE_CHECKING:
    from gym.console.group_streams import OpenStreams

PAGES = [
    *(
        "/",
        "/view",
        "/servers",
        "/discovery",
        "/settings",
        "/collections",
        "/held",
        "/vanished",
        "/rollouts",
        "/shares",
    ),
    *("/metrics", "/global_config_dict_yaml", "/server_instances", "/admin/models/NAME/upstreams"),
]
SHARES = "/shares"  # gym.trainers.shares.PATH
STREAM_COMMAND_BYTES = 64 * 1024
HEALTH = ("/healthz", "/livez", "/readyz", "/health")
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


class Probing(Protocol):
    async def probe(self, discovery: Discovery, facts: Mapping[str, ServerFacts]) -> Mapping[str, Probe]: ...


class Reconciling(Protocol):
    problem: str

    async def run(self) -> None: ...


@dataclass(frozen=True)
class Deps:
    sources: DiscoverySources
    prober: Probing
    token: str = field(default="", repr=False)
    board: Collections = field(default_factory=Collections)
    vanished: Vanished = field(default_factory=Vanished)
    parts: StackParts = StackParts()
    client: HttpClient | None = None  # for the router's figures
    sections: MakeSections = tuple  # beside the stack's own, made when the first page is asked for
    admin: UpstreamAdmin | None = None
    receiver: LogReceiver | None = None  # of what the stack's containers print
    reconciler: Reconciling | None = None  # of the stack's routes, where that is this console's task


def make_app(deps: Deps) -> Starlette:
    console = Console(deps)
    routes = [
        Route("/", console.front),
        Route("/view", console.pages),
        Route("/view/{rest:path}", console.pages),
        Route("/servers", console.servers),
        Route("/discovery", console.discovery),
        Route("/settings", console.settings),
        Route("/global_config_dict_yaml", console.global_config),
        Route("/server_instances", console.server_instances),
        Route("/auth", console.auth),
        Route("/same-origin", console.same_origin),
        Route("/refused/{why}", console.refused, methods=METHODS),
        Route("/collections", console.collections),
        Route("/collections", console.hear, methods=["POST"]),
        Route("/held", console.held),
        Route("/vanished", console.vanished),
        Route("/rollouts", console.rollouts, methods=["POST"]),
        Route("/rollouts/{id}", console.steer, methods=["GET", "POST"]),
        Route(SHARES, console.shares, methods=["GET", "POST"]),
        Route("/admin/models/{name:path}/upstreams", console.upstreams, methods=["GET", "PUT", "DELETE"]),
        *(Route(path, console.health) for path in HEALTH),
        Route("/s/{rest:path}", console.unrouted, methods=METHODS),
        Route("/{rest:path}", console.nowhere, methods=METHODS),
    ]
    guard = [Middleware(OutsideOnly, router=ROUTER)] if deps.parts.contained else []
    return Starlette(routes=routes, middleware=guard, lifespan=lambda _: _kept(deps, console.pages))


@asynccontextmanager
async def _kept(deps: Deps, pages: LatePages) -> AsyncIterator[None]:
    reconciler = deps.reconciler
    work = asyncio.get_running_loop().create_task(reconciler.run(), name="routes") if reconciler else None
    try:
        async with _receiving(deps.receiver):
            yield
    finally:
        await pages.aclose()
        deps.vanished.close()
        if work is not None:
            work.cancel()
            await asyncio.wait([work])


def _make_sections(deps: Deps) -> tuple[Section, ...]:
    from gym.console.guide.guide_section import GUIDE  # noqa: PLC0415 (pages: see LatePages)
    from gym.console.stack.stack_section import make_section  # noqa: PLC0415 (as above)

    stack = make_section(deps.sources, deps.prober, deps.parts, deps.client, deps.board.running)
    return (stack, *(deps.sections() or (GUIDE,)))


def _receiving(receiver: LogReceiver | None) -> AbstractAsyncContextManager[object]:
    return receiver.receiving("0.0.0.0", LOG_PORT) if receiver else nullcontext()


class Console:
    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self.pages = LatePages(partial(_make_sections, deps), self.nowhere)

    @cached_property
    def _streams(self) -> OpenStreams:
        from gym.console.group_streams import OpenStreams  # noqa: PLC0415 (a collector and more: 0.1 s, for trainers)

        return OpenStreams()

    async def front(self, request: Request) -> Response:
        """A page for people; for programs what a head server says there."""
        if "text/html" in request.headers.get("accept", ""):
            return await self.pages.front()
        return _json({"status": "ok", "stack": self._deps.sources.config().stack, "version": __version__})

    async def servers(self, request: Request) -> Response:
        """Every replica: its address, its health, and how to call it."""
        return await self._reply_with_probes(request, views.servers_view)

    async def server_instances(self, request: Request) -> Response:
        """The instances as NeMo Gym's head server lists them."""
        return await self._reply_with_probes(request, partial(views.server_instances_view, now=time.time()))

    async def discovery(self, request: Request) -> Response:
        """Which instances there are and where each replica listens, for servers and collectors."""
        found = await self._deps.sources.discovery()
        return Response(found.model_dump_json(), headers=NO_STORE, media_type="application/json")

    async def settings(self, request: Request) -> Response:
        """What a collection keeps beside its rollouts, to say later what has changed."""
        return _json(views.settings_view(self._deps.sources.config()))

    async def global_config(self, request: Request) -> Response:
        """A JSON string that holds YAML: both kinds of client that exist can read it."""
        found = await self._deps.sources.discovery()
        return _json(views.config_yaml(found, self._deps.sources.config(), find_origin(request.headers, found.router)))

    async def health(self, request: Request) -> Response:
        """200 while the console looks after the stack's routes; else 503 with the problem."""
        if self._deps.reconciler is not None and (problem := self._deps.reconciler.problem):
            return _json({"status": problem}, status=503)
        return _json({"status": "ok"})

    async def auth(self, request: Request) -> Response:
        """The router asks before it lets anyone in from wider than loopback."""
        if is_admitted(request.headers.get("authorization", ""), self._deps.token):
            return Response(status_code=200, headers=NO_STORE)
        return asks_for_token()

    async def upstreams(self, request: Request) -> Response:
        """The addresses of a model. They need the stack's token, where there is one: servers inside do not have it."""
        admin, token = self._deps.admin, self._deps.token
        if token and not is_admitted(request.headers.get("authorization", ""), token):
            return asks_for_token()
        name = request.path_params["name"]
        try:
            if admin is None:
                raise UserError("this console looks after no models", "ask the router of a stack: gym ps")
            if request.method == "PUT":
                return _json(await admin.put(name, await read_small(request, MAX_BYTES)))
            return _json(await (admin.delete(name) if request.method == "DELETE" else admin.show(name)))
        except GymError as error:
            return refusal_reply(error)

    async def same_origin(self, request: Request) -> Response:
        """The router asks about what carries an Origin. Who is foreign was refused before it came here."""
        return Response(status_code=204, headers=NO_STORE)

    async def refused(self, request: Request) -> Response:
        """Where the router sends what it does not let through."""
        asked = request.path_params["why"]
        if asked == "inside":
            return _json(REFUSAL, status=403)
        why: Why = asked if asked in get_args(Why) else "page"
        words = refusal_words(why, request.headers)
        error = RolloutError("row", words.text)
        headers = {labels.HEADER_ERROR: error.kind}
        return Response(error.to_body(), words.status, {**NO_STORE, **headers}, "application/json")

    async def collections(self, request: Request) -> Response:
        """What collects now, on any machine."""
        running = self._deps.board.running()
        if any(not one["pid"] for one in running):  # of this process; the others say what is held for them
            held = await self._held()
            running = [one if one["pid"] else {**one, "progress": {**one["progress"], "held": held}} for one in running]
        return _json({"collections": running})

    async def held(self, request: Request) -> Response:
        """Calls that wait because a provider refuses them."""
        return _json({"held": await self._held()})

    async def vanished(self, request: Request) -> Response:
        """Replicas of agents that vanished. Callers that wait for a reply through the router ask this."""
        return _json({"vanished": self._deps.vanished.look(await self._deps.sources.discovery())})

    async def _held(self) -> list[dict[str, Any]]:
        found, config = await self._deps.sources.discovery(), self._deps.sources.config()
        return views.held_view(found, await self._deps.prober.probe(found, config.servers))

    async def hear(self, request: Request) -> Response:
        """A collector reports its progress."""
        try:
            self._deps.board.hear(await read_small(request, collections.MAX_BYTES))
        except GymError as error:
            return refusal_reply(error)
        return Response(status_code=204, headers=NO_STORE)

    async def rollouts(self, request: Request) -> Response:
        """Rows in, rollouts or groups out as they finish."""
        from gym.console.rollout_streams import LinesResponse, RolloutService  # noqa: PLC0415 (as below)

        deps = self._deps
        try:
            opened = await RolloutService(deps.sources, deps.board, deps.token, self._streams).open(request)
        except GymError as error:
            return refusal_reply(error)
        return LinesResponse(opened, NO_STORE)

    async def steer(self, request: Request) -> Response:
        """The progress of a stream of groups; with POST, commands of its trainer."""
        streams, id = self._streams, request.path_params["id"]
        try:
            if request.method == "GET":
                return _json(streams.find(id).stats().to_dict())
            return _json(await streams.execute(id, await read_small(request, STREAM_COMMAND_BYTES)))
        except GymError as error:
            return refusal_reply(error)

    async def shares(self, request: Request) -> Response:
        """The parts of the stack's places that streams have; with POST, a stream claims one."""
        from gym.trainers import shares  # noqa: PLC0415 (for trainers, as above)

        claims = self._streams.claims
        if request.method == "GET":
            return _json({"shares": claims.view()})
        try:
            granted = claims.hear(await read_small(request, shares.MAX_BYTES))
        except GymError as error:
            return refusal_reply(error)
        return Response(shares.granted_to_body(granted), headers=NO_STORE, media_type="application/json")

    async def unrouted(self, request: Request) -> Response:
        """Below /s/ the router sends us what it has no server for."""
        if request.scope["path"].startswith(labels.REPLICA_PREFIX):
            return Response(NO_ROUTE, 404, NO_STORE, "text/plain")  # take another one: no server has seen it
        found, config = await self._deps.sources.discovery(), self._deps.sources.config()
        asked = request.scope["path"].removeprefix(labels.SERVER_PREFIX)
        known = views.instances(found, config)
        name = next((one for one in known if _is_below(asked, unquote(views.prefix_of(one, config)))), None)
        if name is None:
            return _json(views.unknown_instance(asked.partition("/")[0][:200], known), status=404)
        probes = await self._deps.prober.probe(found, config.servers)
        failure = views.unreachable(name, known[name], probes)
        headers = {labels.HEADER_ERROR: failure.kind, "retry-after": "1"}
        return Response(failure.to_body(), failure.status, {**NO_STORE, **headers}, "application/json")

    async def nowhere(self, request: Request) -> Response:
        return _json({"error": f"nothing at {request.url.path[:200]}", "try": PAGES}, status=404)

    async def _reply_with_probes(self, request: Request, view: Callable[..., Any]) -> Response:
        found, config = await self._deps.sources.discovery(), self._deps.sources.config()
        probes = await self._deps.prober.probe(found, config.servers)
        return _json(view(found, config, probes, find_origin(request.headers, found.router)))


def _is_below(asked: str, prefix: str) -> bool:
    segment = prefix.removeprefix(labels.SERVER_PREFIX)
    return asked == segment or asked.startswith(f"{segment}/")


def _json(value: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(value, default=str), status, NO_STORE, "application/json")
