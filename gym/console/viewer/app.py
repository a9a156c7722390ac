"""Runs of rollouts as a section of the pages: its page, and what that asks for."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gym.console.pages.shell import NO_STORE, Section, answering, json_reply
from gym.console.viewer.note_routes import make_note_routes
from gym.console.viewer.query import Place, read_query
from gym.console.viewer.rollout_files import RolloutFiles
from gym.errors import UserError

MAX_PAGE_ROWS = 500
MAX_PAGE_GROUPS = 200
MAX_GROUP_ROWS = 64  # of one task; the others are counted
RAW = {**NO_STORE, "content-security-policy": "default-src 'none'; sandbox"}
MAX_WAIT, LOOK_SECONDS = 15, 0.5

SCRIPTS = (
    *("signs.js", "ansi.js", "highlight.js", "diff.js", "maths.js", "inline.js", "markdown.js"),
    *("texts.js", "tokens.js", "calls.js", "conversation.js", "judged.js", "timing.js", "beside.js", "copies.js"),
    *("marks.js", "outline.js", "source.js", "rollout.js"),
    *("address.js", "window.js", "filters.js", "list.js", "page.js"),
)
STYLES = ("page.css", "list.css", "rollout.css", "prose.css")


def make_section(files: RolloutFiles) -> Section:
    viewer = Viewer(files)
    api = "/view/api/rollouts"
    place = f"{api}/rollout/{{id:path}}"  # RUN:LINE, where the name of a run may have slashes
    routes = [
        Route(f"{api}/summary", answering(viewer.summary)),
        Route(f"{api}/list", answering(viewer.rollouts)),
        Route(f"{api}/groups", answering(viewer.groups)),
        Route(f"{api}/changes", viewer.changes),
        Route(f"{place}/row", answering(viewer.row)),
        Route(f"{place}/asked", answering(viewer.asked)),
        Route(f"{place}/problem", answering(viewer.problem)),
        *make_note_routes(files, api, place),
        Route(place, answering(viewer.rollout)),
    ]
    return Section("rollouts", "Rollouts", "gym.console.viewer", SCRIPTS, STYLES, routes)


class Viewer:
    """Its methods read files, so they run in threads."""

    def __init__(self, files: RolloutFiles) -> None:
        self._files = files

    def summary(self, request: Request) -> Response:
        runs = read_query(request.query_params).runs
        self._files.refresh(first=runs)
        return json_reply(self._files.summary(runs))

    def rollouts(self, request: Request) -> Response:
        """A page of the list: `start`, `count` and what `read_query` knows."""
        start, count = _page(request, 100, MAX_PAGE_ROWS)
        query = read_query(request.query_params)
        self._files.refresh(first=query.runs)
        found = self._files.find(query)
        rows = [self._files.view(place) for place in found.places[start : start + count]]
        reply = {"total": len(found.places), "start": start, "rows": rows, "bars": found.bars}
        return json_reply({**reply, "searched": found.searched, "generation": self._files.generation})

    def groups(self, request: Request) -> Response:
        """A page of the tasks, those whose repeats disagree first unless `sort` says otherwise."""
        start, count = _page(request, 50, MAX_PAGE_GROUPS)
        query = read_query(request.query_params)
        self._files.refresh(first=query.runs)
        found = self._files.find(replace(query, sort="file"))
        groups = self._files.groups(found, query.sort if "sort" in request.query_params else "disagree")
        views = [self._files.group_view(group, MAX_GROUP_ROWS) for group in groups[start : start + count]]
        reply = {"total": len(groups), "lines": len(found.places), "start": start, "groups": views, "bars": found.bars}
        return json_reply({**reply, "searched": found.searched, "generation": self._files.generation})

    async def changes(self, request: Request) -> Response:
        """Answers as soon as files are no longer as they were at `generation`, or after `wait` seconds."""
        known = request.query_params.get("generation", "")
        wait = request.query_params.get("wait", "")
        border = time.monotonic() + (min(int(wait), MAX_WAIT) if wait.isdecimal() and len(wait) < 4 else 0)
        while True:
            await run_in_threadpool(self._files.refresh)
            now = self._files.generation
            if str(now) != known or time.monotonic() >= border or await request.is_disconnected():
                return json_reply({"generation": now, "indexed": self._files.runs.indexed()})
            await asyncio.sleep(LOOK_SECONDS)

    def rollout(self, request: Request) -> Response:
        """The line as it stands in its file."""
        place = self._place(request)
        kind = "text/plain" if self._files.is_malformed(place) else "application/json"
        return Response(self._files.line(place), headers=RAW, media_type=kind)

    def row(self, request: Request) -> Response:
        """Its line of the list."""
        return json_reply(self._files.view(self._place(request)))

    def asked(self, request: Request) -> Response:
        asked = self._files.asked(self._place(request)) or b"null"
        return Response(asked, headers=RAW, media_type="application/json")

    def problem(self, request: Request) -> Response:
        return json_reply(self._files.problem(self._place(request)))

    def _place(self, request: Request) -> Place:
        return self._files.place(request.path_params["id"])


def _page(request: Request, count: int, max_count: int) -> tuple[int, int]:
    asked = request.query_params
    return read_whole(asked.get("start", "0")), min(read_whole(asked.get("count", str(count))), max_count)


def read_whole(text: str) -> int:
    if not text.isdecimal() or len(text) > 12:
        raise UserError(f"start and count are whole numbers, found {text[:40]!r}")
    return int(text)
