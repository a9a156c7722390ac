"""The broker as an ASGI app: a token for all but /healthz and /metrics, then the route; every failure is data."""

from __future__ import annotations

import logging
from typing import Any

from gym.broker import lifecycle
from gym.broker.config import authenticate
from gym.broker.errors import RequestRefused, Unavailable
from gym.broker.routes import build_routes, command_routes, file_routes, sandbox_routes, terminal_routes
from gym.broker.routes.request import Handler, Request, json_answer, read_request, refusal, serve
from gym.broker.service import Broker
from gym.errors import GymError
from gym.http.tracing import TRACING, Tracer
from gym.server.asgi import Answer, Receive, Scope, Send, send_answer
from gym.wire.failures import RolloutError
from gym.wire.sandbox import name_call

log = logging.getLogger("gym.broker")
ROUTES: dict[str, Handler] = {
    **sandbox_routes.ROUTES,
    **build_routes.ROUTES,
    **command_routes.ROUTES,
    **file_routes.ROUTES,
}
VARIABLE = {1, 3}  # the parts of a path that are names: /sandboxes/*/jobs/*/kill


class App:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await terminal_routes.serve_terminal(self.broker, scope, receive, send)
        elif scope["path"] in ("/", "/healthz"):
            await send_answer(send, self._health())
        elif scope["path"] == "/metrics":
            text = self.broker.meters.text(sandbox_routes.gauges(self.broker)).encode()
            await send_answer(send, Answer(text, content_type=b"text/plain; version=0.0.4"))
        else:
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            caller = authenticate(self.broker.config, dict(scope["headers"]).get(b"authorization"))
            request = read_request(self.broker, caller, scope, receive)
            handler = find_route(request)
            if not self.broker.ready:
                raise Unavailable("the broker is starting", 1.0)
        except RolloutError as error:
            await send_answer(send, refusal(error))
            return
        if TRACING.tracer is None or request.parts[0] == "leases":
            await serve(request, handler, send)
        else:
            await serve_traced(TRACING.tracer, request, handler, send)

    def _health(self) -> Answer:
        broker = self.broker
        status = "stopping" if broker.stopping else "ok" if broker.ready else "starting"
        health = {"status": status, "name": "sandbox", "type": "sandbox", "provider": broker.provider.name}
        return json_answer(health, 200 if status == "ok" else 503)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await lifecycle.start(self.broker)
        except GymError as error:
            log.error("%s", error)
            await send({"type": "lifespan.startup.failed", "message": ""})
            return
        except Exception as error:  # noqa: BLE001 (the log shows the whole of it)
            log.error("the broker could not start", exc_info=error)
            await send({"type": "lifespan.startup.failed", "message": ""})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await lifecycle.close(self.broker)
        await send({"type": "lifespan.shutdown.complete"})


def find_route(request: Request) -> Handler:
    parts = request.parts
    exact = f"{request.method} /{'/'.join(parts)}"
    shape = "/".join("*" if at in VARIABLE else part for at, part in enumerate(parts))
    handler = ROUTES.get(exact) or ROUTES.get(f"{request.method} /{shape}")
    if handler is None:
        raise RequestRefused(f"no such route: {exact[:200]}; docs/sandboxes.md lists what there is", 404)
    return handler


async def serve_traced(tracer: Tracer, request: Request, handler: Handler, send: Send) -> None:
    """With a span for the request, below that of its caller."""
    verb, sandbox = name_call(request.method, "/".join(request.parts))
    facts = {"gym.sandbox.id": sandbox, "gym.sandbox.provider": request.broker.provider.name}
    with tracer.span(verb, "server", facts, caller=list(request.headers.items())) as span:

        async def watched(message: Any) -> None:
            if message["type"] == "http.response.start":
                status = message["status"]
                span.set({"http.response.status_code": status})
                if status >= 500:
                    span.fail("sandbox", "")
            await send(message)

        await serve(request, handler, watched)
