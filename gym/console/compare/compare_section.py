"""Compare as a section of the pages: the first run named is what the others are held against."""

from __future__ import annotations

from typing import get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gym.collect.study.comparison import By
from gym.console.compare.comparisons import Comparisons
from gym.console.pages.shell import Section, answering, json_reply
from gym.console.runs.runs_section import read_border
from gym.console.viewer.run_files import RunFiles
from gym.errors import UserError

MAX_COMPARED = 8
SCRIPTS, STYLES = ("pages/charts.js", "page.js"), ("pages/figures.css",)


def make_section(files: RunFiles) -> Section:
    pages = ComparePages(files)
    api = "/view/api/compare"
    routes = [Route(f"{api}/names", answering(pages.names)), Route(f"{api}/runs", answering(pages.compare))]
    return Section("compare", "Compare", "gym.console.compare", SCRIPTS, STYLES, routes)


class ComparePages:
    """Its methods read files, so they run in threads."""

    def __init__(self, files: RunFiles) -> None:
        self._files = files
        self._comparisons = Comparisons(files)

    def names(self, _: Request) -> Response:
        self._files.refresh()
        return json_reply({"runs": list(self._files.runs)})

    def compare(self, request: Request) -> Response:
        self._files.refresh()
        names = request.query_params.getlist("run")
        by, flip_at = _read_by(request.query_params.get("by", "")), read_border(request.query_params.get("flip", ""))
        if not 2 <= len(set(names)) == len(names) <= MAX_COMPARED:
            raise UserError(f"Name two runs to compare, or up to {MAX_COMPARED}, each once.")
        found = self._comparisons.ask([self._files.named(name) for name in names], by, flip_at)
        return json_reply({"before": names[0], **found, "generation": self._files.generation})


def _read_by(text: str) -> By | None:
    if text and text not in get_args(By):
        raise UserError(f"by={text[:40]}: expected row or index")
    return text or None  # type: ignore[return-value]
