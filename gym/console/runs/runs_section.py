"""Runs as a section of the pages: its page, and what that asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gym.console.pages.shell import Section, answering, json_reply
from gym.console.runs.run_board import Progress, RunBoard
from gym.console.runs.task_sums import TASK_SORTS
from gym.console.viewer.app import read_whole
from gym.console.viewer.run_files import RunFiles
from gym.errors import UserError

PASS_AT = 0.5  # the reward from which a rollout counts as passed, as `gym compare --flip-at` has it
MAX_TASKS = 500
SCRIPTS, STYLES = ("pages/charts.js", "page.js"), ("pages/figures.css",)


def make_section(files: RunFiles, progress: Progress = lambda: ()) -> Section:
    pages = RunsPages(RunBoard(files, progress))
    api = "/view/api/runs"
    routes = [
        Route(f"{api}/list", answering(pages.listed)),
        Route(f"{api}/run", answering(pages.run)),
        Route(f"{api}/tasks", answering(pages.tasks)),
        Route(f"{api}/provenance", answering(pages.provenance)),
    ]
    return Section("runs", "Runs", "gym.console.runs", SCRIPTS, STYLES, routes)


class RunsPages:
    """Its methods read files, so they run in threads."""

    def __init__(self, board: RunBoard) -> None:
        self._board = board

    def listed(self, _: Request) -> Response:
        return json_reply({"runs": self._board.views()})

    def run(self, request: Request) -> Response:
        asked = request.query_params
        return json_reply(self._board.figures(_name(request), read_border(asked.get("pass", "")), read_k(asked, "0")))

    def tasks(self, request: Request) -> Response:
        asked = request.query_params
        sort = asked.get("sort") or "-spread"
        if sort not in TASK_SORTS:
            raise UserError(f"sort={sort[:40]}: expected one of {', '.join(sorted(TASK_SORTS))}")
        start, count = read_whole(asked.get("start", "0")), min(read_whole(asked.get("count", "50")), MAX_TASKS)
        border, k = read_border(asked.get("pass", "")), max(read_k(asked, "1"), 1)
        return json_reply(self._board.tasks(_name(request), sort, start, count, border, k))

    def provenance(self, request: Request) -> Response:
        return json_reply(self._board.provenance(_name(request)))


def _name(request: Request) -> str:
    return request.query_params.get("run", "")


def read_k(asked: Mapping[str, str], default: str) -> int:
    """Of pass@k."""
    text = asked.get("k") or default
    if not (text.isdecimal() and len(text) < 6):
        raise UserError(f"k={text[:40]}: expected a whole number, how many tries count as one")
    return int(text)


def read_border(text: str) -> float:
    if not text:
        return PASS_AT
    try:
        border = float(text)
    except ValueError:
        border = math.nan
    if not math.isfinite(border):
        raise UserError(f"{text[:40]!r} is not a reward: expected a number")
    return border
