"""One set of rollout files as a section of the pages: its page, and what that asks for."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gym.console.pages.shell import NO_STORE, Section, answering, json_reply
from gym.console.viewer.note_routes import make_note_routes
from gym.console.viewer.query import Place, read_query
from gym.console.viewer.rollout_files import RolloutFiles
from gym.errors import UserError

MAX_PAGE_ROWS = 500
RAW = {**NO_STORE, "content-security-policy": "default-src 'none'; sandbox"}


SCRIPTS = (
    *("signs.js", "ansi.js", "highlight.js", "diff.js", "maths.js", "inline.js", "markdown.js"),
    *("texts.js", "tokens.js", "calls.js", "conversation.js", "judged.js", "timing.js", "beside.js", "copies.js"),
    *("marks.js", "outline.js", "source.js", "rollout.js", "page.js"),
)
STYLES = ("page.css", "rollout.css", "prose.css")


def make_section(files: RolloutFiles) -> Section:
    viewer = Viewer(files)
    api = "/view/api/rollouts"
    place = f"{api}/rollout/{{file:int}}/{{index:int}}"
    routes = [
        Route(f"{api}/summary", answering(viewer.summary)),
        Route(f"{api}/list", answering(viewer.rollouts)),
        Route(place, answering(viewer.rollout)),
        Route(f"{place}/row", answering(viewer.row)),
        Route(f"{place}/asked", answering(viewer.asked)),
        Route(f"{place}/problem", answering(viewer.problem)),
        *make_note_routes(files, api, place),
    ]
    return Section("rollouts", "Rollouts", "gym.console.viewer", SCRIPTS, STYLES, routes)


class Viewer:
    """Its methods read files, so they run in threads."""

    def __init__(self, files: RolloutFiles) -> None:
        self._files = files

    def summary(self, _: Request) -> Response:
        self._files.refresh()
        return json_reply(self._files.summary())

    def rollouts(self, request: Request) -> Response:
        """A page of the list: `start`, `count` and what `read_query` knows."""
        asked = request.query_params
        start, count = _whole(asked.get("start", "0")), min(_whole(asked.get("count", "100")), MAX_PAGE_ROWS)
        self._files.refresh()
        found = self._files.find(read_query(asked))
        rows = [self._files.view(place) for place in found.places[start : start + count]]
        return json_reply({"total": len(found.places), "start": start, "rows": rows, "bars": found.bars})

    def rollout(self, request: Request) -> Response:
        """The line as it stands in its file."""
        place = _place(request)
        kind = "text/plain" if self._files.is_malformed(place) else "application/json"
        return Response(self._files.line(place), headers=RAW, media_type=kind)

    def row(self, request: Request) -> Response:
        """Its line of the list."""
        return json_reply(self._files.view(_place(request)))

    def asked(self, request: Request) -> Response:
        return Response(self._files.asked(_place(request)) or b"null", headers=RAW, media_type="application/json")

    def problem(self, request: Request) -> Response:
        return json_reply(self._files.problem(_place(request)))


def _place(request: Request) -> Place:
    return request.path_params["file"], request.path_params["index"]


def _whole(text: str) -> int:
    if not text.isdecimal() or len(text) > 12:
        raise UserError(f"start and count are whole numbers, found {text[:40]!r}")
    return int(text)
