"""A span for each request to the broker, below that of its caller."""

from __future__ import annotations

from typing import Any

from gym.broker.routes.request import Handler, Request, serve
from gym.http.tracing import Tracer
from gym.server.asgi import Send
from gym.wire.sandbox import name_call


async def serve_traced(tracer: Tracer, request: Request, handler: Handler, send: Send) -> None:
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
