"""`/docs` of a server: a page of our own over its openapi.json, so that nothing is fetched from elsewhere."""

from __future__ import annotations

import functools
from importlib.resources import files
from typing import Final

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

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


def add_docs(app: FastAPI) -> None:
    """Its own addresses are relative, so that it works behind the router too."""
    for path, (name, kind) in FILES.items():
        app.add_route(path, functools.partial(_answer, name, kind), include_in_schema=False)


async def _answer(name: str, kind: str, _: Request) -> Response:
    text = files("gym.server").joinpath("docs_page").joinpath(name).read_text("utf-8")
    return Response(text, headers=HEADERS, media_type=kind)
