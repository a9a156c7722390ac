"""The page and what it asks for, as an ASGI app over one set of rollout files. For this machine's browser alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gym.console.console_page import Page
from gym.console.viewer.page import load_page
from gym.console.viewer.query import Place, read_query
from gym.console.viewer.rollout_files import NoSuchRollout, RolloutFiles
from gym.errors import UserError

MAX_PAGE_ROWS = 500
NO_STORE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
RAW = {**NO_STORE, "content-security-policy": "default-src 'none'; sandbox"}


def make_app(files: RolloutFiles) -> Starlette:
    viewer = Viewer(files, load_page())
    place = "{file:int}/{index:int}"
    routes = [
        Route("/", viewer.front),
        Route("/api/summary", _answering(viewer.summary)),
        Route("/api/rollouts", _answering(viewer.rollouts)),
        Route(f"/api/rollout/{place}", _answering(viewer.rollout)),
        Route(f"/api/rollout/{place}/row", _answering(viewer.row)),
        Route(f"/api/rollout/{place}/asked", _answering(viewer.asked)),
        Route(f"/api/rollout/{place}/problem", _answering(viewer.problem)),
    ]
    # A page elsewhere may point a name of its own at this address; it must not read what lies here.
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"], www_redirect=False)
    return Starlette(routes=routes, middleware=[hosts])


class Viewer:
    """Its methods read files, so they run in threads."""

    def __init__(self, files: RolloutFiles, page: Page) -> None:
        self._files = files
        self._page = page

    def front(self, _: Request) -> Response:
        return Response(self._page.html, headers={**NO_STORE, **self._page.headers}, media_type="text/html")

    def summary(self, _: Request) -> Response:
        self._files.refresh()
        return _json(self._files.summary())

    def rollouts(self, request: Request) -> Response:
        """A page of the list: `start`, `count` and what `read_query` knows."""
        asked = request.query_params
        start, count = _whole(asked.get("start", "0")), min(_whole(asked.get("count", "100")), MAX_PAGE_ROWS)
        self._files.refresh()
        found = self._files.find(read_query(asked))
        rows = [self._files.view(place) for place in found.places[start : start + count]]
        return _json({"total": len(found.places), "start": start, "rows": rows, "bars": found.bars})

    def rollout(self, request: Request) -> Response:
        """The line as it stands in its file."""
        place = _place(request)
        kind = "text/plain" if self._files.is_malformed(place) else "application/json"
        return Response(self._files.line(place), headers=RAW, media_type=kind)

    def row(self, request: Request) -> Response:
        """Its line of the list."""
        return _json(self._files.view(_place(request)))

    def asked(self, request: Request) -> Response:
        return Response(self._files.asked(_place(request)) or b"null", headers=RAW, media_type="application/json")

    def problem(self, request: Request) -> Response:
        return _json(self._files.problem(_place(request)))


def _answering(call: Callable[[Request], Response]) -> Callable[[Request], Response]:
    """What a person may meet becomes a sentence on the page."""

    def answer(request: Request) -> Response:
        try:
            return call(request)
        except UserError as error:
            return _json({"error": str(error)}, status=400)
        except NoSuchRollout as error:
            return _json({"error": f"{error}: its file has changed; reload the page"}, status=404)
        except OSError as error:
            return _json({"error": f"{error.filename}: {error.strerror}"}, status=410)

    return answer


def _place(request: Request) -> Place:
    return request.path_params["file"], request.path_params["index"]


def _whole(text: str) -> int:
    if not text.isdecimal() or len(text) > 12:
        raise UserError(f"start and count are whole numbers, found {text[:40]!r}")
    return int(text)


def _json(value: Any, status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, NO_STORE, "application/json")
