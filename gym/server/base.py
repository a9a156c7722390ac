"""What resources servers, agents and models share: configuration, routes, docs, health, start and stop.

A `ServerApp` does nothing until it is started: no work at import, and a test builds one with a config of its own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import fields as fields_of
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast, get_type_hints

import orjson

from gym import __version__
from gym.errors import GymError
from gym.http.tracing import TRACING, Tracer, start_tracing, stop_tracing
from gym.server.asgi import Answer, Call, Handler, HotRoutes, Receive, Route, Scope, Send
from gym.server.author_shape import refuse_bad_init, refuse_bad_methods, refuse_init_alone, started_by
from gym.server.config import ServerConfig, Settings, parse_config, read_settings
from gym.server.errors import error_to_failure
from gym.server.kept_memory import keep_freed_memory
from gym.server.own_secrets import OwnSecrets
from gym.server.peer_token import is_stranger, refuse_stranger
from gym.server.traced_routes import TracedRoutes
from gym.wire import sse
from gym.wire.failures import RolloutError
from gym.wire.pieces import to_body
from gym.wire.unread import write_pieces

if TYPE_CHECKING:
    from fastapi import FastAPI

log = logging.getLogger("gym.server")
T = TypeVar("T")


class ServerPart:
    """A class attribute in whose place every server gets a value made of its own configuration: `judged` is one."""

    def make(self, server: Any) -> Any:
        """The value; it is made when the server is, so that a wrong setting ends the start."""
        raise NotImplementedError


class Server:
    """One server. Subclasses are written against ResourcesServer, Agent or Model, not against this."""

    role: ClassVar[str] = "agent"  # the kind of failure a bug in it is
    server_type: ClassVar[str] = ""
    here: ClassVar[Path]  # the folder of the file that defines the class: its prompts and workers lie there
    config: ServerConfig

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.here = Path(getattr(sys.modules.get(cls.__module__), "__file__", None) or ".").absolute().parent

    def __init__(self, config: ServerConfig, settings: Settings) -> None:
        self.config = config
        self.settings = settings
        self.own_secrets = OwnSecrets()  # those of `settings`, once it is started
        self._owned: list[Any] = []
        for name, part in find_parts(type(self)).items():
            setattr(self, name, part.make(self))

    @property
    def name(self) -> str:
        return self.config.name

    def check_methods(self) -> None:
        """Of a subclass, before it starts."""
        refuse_bad_methods(self, {"start": ()})

    async def begin(self) -> None:
        """What a kind of server does before `start`: subclasses of yours need not call on it."""

    async def end(self) -> None:
        """What a kind of server does after `stop`."""

    async def start(self) -> None:
        """Load what the server needs. It is not ready before this returns; whatever it raises ends the process."""

    async def stop(self) -> None:
        """Let go of it again, after the last request. What it owns is closed afterwards."""

    def own(self, thing: T) -> T:
        """`thing`, which is closed when the server has stopped, the last one first: by its `aclose`, or its `close`."""
        self._owned.append(thing)
        return thing

    async def close_owned(self) -> None:
        """One that cannot be closed keeps none of the others open."""
        while self._owned:
            thing = self._owned.pop()
            close: Callable[[], Awaitable[None]] = getattr(thing, "aclose", None) or thing.close
            try:
                await close()
            except Exception as error:  # noqa: BLE001 (whatever a library raises: the server is going down)
                log.error("%s could not be closed", type(thing).__name__, exc_info=error)

    def routes(self) -> list[Route]:
        return []

    def extend(self, app: FastAPI) -> None:
        """Add routes of your own that are not tools."""

    @property
    def has_own_routes(self) -> bool:
        """Whether `extend` has to be called at the start."""
        return type(self).extend is not Server.extend

    def find_tool(self, path: str) -> Handler | None:
        """What answers a POST to a path that no route has: where tools are known only once a rollout has begun."""
        return None

    def find_route(self, method: str, path: str) -> Handler | None:
        """What answers where no route has that path."""
        return self.find_tool(path) if method == "POST" else None

    def health(self) -> dict[str, Any]:
        return {}

    def _calls_made(self) -> Mapping[str, int]:
        """By the instance that was asked."""
        return {}

    @classmethod
    def app(cls, fields: Mapping[str, Any] | None = None, **settings: Any) -> ServerApp:
        """The ASGI app, configured by the environment, or by `fields` and `Settings` fields where a test gives them."""
        return ServerApp(cls._make, fields, settings)

    @classmethod
    def _make(cls, settings: Settings) -> Self:
        kind = cast(type[ServerConfig], get_type_hints(cls).get("config", ServerConfig))
        refuse_bad_init(cls, ("config", "settings"))
        made = cls(parse_config(kind, settings.name, settings.fields), settings)
        if not hasattr(made, "own_secrets"):
            refuse_init_alone(cls)
        return made


class ServerApp:
    """ASGI: builds its server when it is started (or first asked), and takes it down at the end."""

    def __init__(
        self, make: Callable[[Settings], Server], fields: Mapping[str, Any] | None, settings: Mapping[str, Any]
    ) -> None:
        self._make = make
        self._fields = fields
        self._settings = settings
        self._hot: HotRoutes | None = None
        self._peer_token = ""
        self._starting = asyncio.Lock()
        self._tracer: Tracer | None = None
        self.server: Server | None = None
        self.failure: Exception | None = None  # why it did not start

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
            return
        hot = self._hot or await self._start_once()
        if self._peer_token and is_stranger(scope, self._peer_token):
            await refuse_stranger(scope, send)
            return
        await hot(scope, receive, send)

    def configured(self, fields: Mapping[str, Any], **settings: Any) -> ServerApp:
        """The same server, not yet started, with a configuration of its own."""
        return ServerApp(self._make, fields, settings)

    def hosted(self, settings: Settings) -> ServerApp:
        """The same server, not yet started, for one of several instances of a process."""
        given = {one.name: getattr(settings, one.name) for one in fields_of(settings) if one.name != "fields"}
        return self.configured(settings.fields, **given)

    def make(self, settings: Settings) -> Server:
        """The server alone: not started, and not reachable."""
        return self._make(settings)

    async def start(self) -> HotRoutes:
        settings = (
            Settings(**self._settings, fields=self._fields) if self._fields is not None else read_settings(os.environ)
        )
        keep_freed_memory()
        server = self._make(settings)
        server.check_methods()
        self._peer_token = settings.peer_token
        server.own_secrets = OwnSecrets.of(settings, os.environ)
        self._tracer = start_tracing(settings.telemetry, server.name, _facts_for_traces(settings))
        try:
            await server.begin()
            await started_by(server, server.start)
        except BaseException:
            await server.close_owned()
            stop_tracing(self._tracer)
            raise
        routes = server.routes()
        table = {(route.method, route.path): route.handler for route in routes}
        find: Callable[[str, str], Handler | None] = server.find_route
        if TRACING.tracer is not None:
            traced = TracedRoutes(TRACING.tracer, server.name, server.role)
            table, find = traced.table(table), traced.finder(find)
        cold = ColdApp(server, routes)
        if server.has_own_routes:
            cold.make()  # an author's mistake ends the start
        self.server = server
        self._hot = hot = HotRoutes(cold, server.name, server.role, table, find, server.own_secrets.mask_failure)
        hot.counts.instances = settings.instances
        hot.raw = frozenset((route.method, route.path) for route in routes if route.raw)
        hot.quiet = _quiet_routes(server, lambda: hot.counts.view(hot.in_flight, server._calls_made()))
        return hot

    async def stop(self) -> None:
        if self.server is not None:
            try:
                await self.server.stop()
                await self.server.end()
            finally:
                await self.server.close_owned()
                if self._tracer is not None:
                    await asyncio.to_thread(stop_tracing, self._tracer)

    async def _start_once(self) -> HotRoutes:
        """Without a lifespan the first request starts the server; the others wait for it."""
        async with self._starting:
            return self._hot or await self.start()

    async def starts(self) -> bool:
        """Started; or not, and the log says why."""
        try:
            await self.start()
        except GymError as error:
            self.failure = error
            log.error("%s", error)
        except Exception as error:  # noqa: BLE001 (an author's start(): the log shows the whole of it)
            self.failure = error
            log.error("the server could not start", exc_info=error)
        return self.failure is None

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        if not await self.starts():
            await send({"type": "lifespan.startup.failed", "message": ""})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.stop()
        await send({"type": "lifespan.shutdown.complete"})


class ColdApp:
    """What is rarely asked for: docs, an author's routes, what is not there. FastAPI is imported when it first is."""

    def __init__(self, server: Server, routes: list[Route]) -> None:
        self._server, self._routes = server, routes
        self._app: FastAPI | None = None

    def make(self) -> FastAPI:
        if self._app is None:
            from gym.server.cold_routes import make_fastapi  # noqa: PLC0415 (most servers are never asked)

            about = self._server.config.description or ""
            self._app = make_fastapi(self._server.name, about, self._routes, self._failure)
            self._server.extend(self._app)
        return self._app

    def _failure(self, error: Exception) -> RolloutError:
        server = self._server
        return server.own_secrets.mask_failure(error_to_failure(error, server=server.name, role=server.role))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.make()(scope, receive, send)


def _quiet_routes(server: Server, work: Callable[[], dict[str, Any]]) -> dict[tuple[str, str], Callable[[], Answer]]:
    known = {"status": "ok", "name": server.name, "type": server.server_type}
    started = round(time.time(), 3)

    def health() -> Answer:
        return json_answer({**known, "version": __version__, "started": started, "work": work(), **server.health()})

    return {("GET", "/healthz"): health, ("GET", "/"): lambda: json_answer(known)}


def _facts_for_traces(settings: Settings) -> dict[str, str]:
    return {"service.instance.id": settings.replica} if settings.replica else {}


def find_parts(kind: type[Server]) -> dict[str, ServerPart]:
    """Of the class and what it is derived from; a subclass that gives the name to something else has no such part."""
    named: dict[str, Any] = {}
    for one in reversed(kind.__mro__):
        named |= vars(one)
    return {name: value for name, value in named.items() if isinstance(value, ServerPart)}


def event_answer(events: bytes, headers: tuple[tuple[bytes, bytes], ...] = (), *, whole: Any = None) -> Answer:
    """`whole`: the reply that the events tell in pieces, for who records it."""
    headers = ((b"cache-control", b"no-cache"), *headers)
    return Answer(events, headers=headers, content_type=sse.CONTENT_TYPE, whole=whole)


def json_answer(value: Any, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Answer:
    return Answer(to_body(write_pieces(value, option=orjson.OPT_NON_STR_KEYS)), headers=headers)


__all__ = ["Answer", "Call", "Route", "Server", "ServerApp", "ServerPart", "event_answer", "json_answer"]
