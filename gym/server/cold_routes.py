"""What is rarely asked for, by FastAPI: `/docs`, `/openapi.json`, routes that an author added, what is not there.

The page of `/docs` is our own, so that nothing is fetched from elsewhere.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any, Final

from fastapi import FastAPI
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from gym import __version__
from gym.labels import HEADER_ERROR
from gym.server.asgi import Route
from gym.wire.failures import RolloutError

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {"content-security-policy": POLICY, "x-content-type-options": "nosniff", "cache-control": "no-cache"}
FILES: Final = {
    "/docs": ("page.html", "text/html"),
    "/docs/page.css": ("page.css", "text/css"),
    "/docs/page.js": ("page.js", "text/javascript"),
}
_JSON: Final[dict[str, Any]] = {"content": {"application/json": {"schema": {}}}}


def make_fastapi(
    name: str, about: str, routes: Sequence[Route], to_failure: Callable[[Exception], RolloutError]
) -> FastAPI:
    app = FastAPI(title=name, version=__version__, description=about, docs_url=None, redoc_url=None)
    _add_docs(app)

    @app.exception_handler(Exception)
    async def on_error(_: Request, error: Exception) -> Response:
        failure = to_failure(error)
        return Response(failure.to_body(), failure.status, {HEADER_ERROR: failure.kind}, "application/json")

    cold = app.openapi
    setattr(app, "openapi", lambda: _document(cold(), routes))  # noqa: B010 (mypy refuses an assigned method)
    return app


def _document(schema: dict[str, Any], routes: Sequence[Route]) -> dict[str, Any]:
    """FastAPI's schema of its own routes, and the others beside them."""
    components = schema.setdefault("components", {}).setdefault("schemas", {})
    ready = {"summary": "200 when ready", "responses": {"200": {"description": "OK", **_JSON}}}
    schema["paths"].setdefault("/healthz", {})["get"] = ready
    for route in routes:
        operation: dict[str, Any] = {"summary": route.summary or route.path, "responses": {}}
        if route.request is not None:
            operation["requestBody"] = {"required": True, **_content(route.request, components)}
        answer = _content(route.response, components) if route.response else _JSON
        operation["responses"] = {"200": {"description": "OK", **answer}, "422": {"description": "Bad body"}}
        schema["paths"].setdefault(route.path, {})[route.method.lower()] = operation
    return schema


def _content(model: type[BaseModel], components: dict[str, Any]) -> dict[str, Any]:
    described = model.model_json_schema(ref_template="#/components/schemas/{model}")
    components.update(described.pop("$defs", {}))
    components[model.__name__] = described
    return {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}}


def _add_docs(app: FastAPI) -> None:
    """Its own addresses are relative, so that it works behind the router too."""
    for path, (name, kind) in FILES.items():
        app.add_route(path, functools.partial(_answer, name, kind), include_in_schema=False)


async def _answer(name: str, kind: str, _: Request) -> Response:
    text = files("gym.server").joinpath("docs_page").joinpath(name).read_text("utf-8")
    return Response(text, headers=HEADERS, media_type=kind)
