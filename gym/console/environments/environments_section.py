"""The Environments section: the catalogue, one environment, and a person's tries where a stack runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gym.console.discovery_sources import DiscoverySources, ServerFacts
from gym.console.environments.env_catalog import EnvCatalog, entry_view, instances_of
from gym.console.environments.env_files import EnvFiles
from gym.console.environments.person_session import PersonSession, PersonSessions
from gym.console.pages.json_posts import parse_post, read_post
from gym.console.pages.shell import EXPLAINED, NO_STORE, NotThere, Section, explain
from gym.console.viewer.app import read_whole
from gym.errors import UserError
from gym.wire import items
from gym.wire.json_text import write_any_json

API: Final = "/view/api/environments"
MAX_POST: Final = 5_000_000  # bytes: a row may be long
READING: Final = (
    *("signs.js", "ansi.js", "highlight.js", "diff.js", "maths.js", "inline.js", "markdown.js", "texts.js"),
    *("tokens.js", "calls.js", "conversation.js", "timing.js", "copies.js"),
)
SCRIPTS: Final = (*(f"viewer/{one}" for one in READING), "tool_forms.js", "trying.js", "page.js")
STYLES: Final = ("viewer/rollout.css", "viewer/prose.css", "page.css")
TURN: Final = '{"say": "the answer"} or {"tool": "NAME", "arguments": {}}'
Json = dict[str, Any]


@dataclass(frozen=True)
class StackToTry:
    """Where there is a stack: who runs in it, and the tries at its environments."""

    sources: DiscoverySources
    sessions: PersonSessions

    def running(self) -> Mapping[str, ServerFacts]:
        return self.sources.config().servers


def make_section(catalog: EnvCatalog, stack: StackToTry | None = None) -> Section:
    pages = EnvironmentPages(catalog, stack)
    routes = [
        Route(f"{API}/list", replying(pages.list)),
        Route(f"{API}/one", replying(pages.one)),
        Route(f"{API}/row", replying(pages.row)),
        Route(f"{API}/tries", replying(pages.begin), methods=["POST"]),
        Route(f"{API}/tries/{{id}}", replying(pages.look)),
        Route(f"{API}/tries/{{id}}", replying(pages.turn), methods=["POST"]),
    ]
    end = stack.sessions.aclose if stack else None
    return Section("environments", "Environments", "gym.console.environments", SCRIPTS, STYLES, routes, end)


def replying(call: Callable[[Request], Awaitable[Any]]) -> Callable[[Request], Awaitable[Response]]:
    """The value as JSON, whatever its whole numbers; an error as a sentence on the page."""

    async def reply(request: Request) -> Response:
        try:
            return Response(write_any_json(await call(request)), 200, NO_STORE, "application/json")
        except EXPLAINED as error:
            return explain(error)

    return reply


class EnvironmentPages:
    def __init__(self, catalog: EnvCatalog, stack: StackToTry | None) -> None:
        self._catalog = catalog
        self._stack = stack

    async def list(self, _: Request) -> Json:
        running = self._running()
        found = await run_in_threadpool(self._catalog.entries, running)
        views = [entry_view(one, instances_of(one.name, running)) for one in found.values()]
        return {"stack": self._stack is not None, "environments": views, "missing": self._catalog.lacks()}

    async def one(self, request: Request) -> Json:
        """All there is of one; its tools are those of a server that runs, else what its rows list."""
        name, running = request.query_params.get("name", ""), self._running()
        view = await run_in_threadpool(self._describe, name, running)
        for instance in view["instances"]:
            if self._stack and (tools := await self._stack.sessions.tools(instance)):
                return view | {"tools": tools, "tools_from": f"{instance}, which runs"}
        return view | {"stack": self._stack is not None}

    async def row(self, request: Request) -> Json:
        name, number = request.query_params.get("name", ""), read_whole(request.query_params.get("row", ""))
        return await run_in_threadpool(self._row, name, number)

    async def begin(self, request: Request) -> Json:
        """`{"server": "mcqa", "row": {...}}`; or, instead of a row, `"example": 0` and the environment's `"name"`."""
        asked = parse_post(await read_post(request, MAX_POST, "a try"), "a try", '{"server": "mcqa", "example": 0}')
        stack, server, row = self._trying(), asked.get("server"), asked.get("row")
        facts = self._running().get(server) if isinstance(server, str) else None
        if facts is None or facts.type != "resources_servers":
            raise NotThere(f"the stack has no environment {str(server)[:200]!r}")
        if row is None:
            row = await run_in_threadpool(self._row, facts.implementation, read_whole(str(asked.get("example"))))
        if not isinstance(row, dict):
            raise UserError("a row is a JSON object, a line of a data set")
        return (await stack.sessions.begin(str(server), row)).view()

    async def look(self, request: Request) -> Json:
        return self._trying().sessions.find(request.path_params["id"]).view()

    async def turn(self, request: Request) -> Json:
        """`{"say": "..."}`, `{"tool": "...", "arguments": {...}}`, or `{"close": true}`."""
        asked = parse_post(await read_post(request, MAX_POST, "a turn"), "a turn", TURN)
        session = self._trying().sessions.find(request.path_params["id"])
        if asked.get("close") is True:
            await session.close()
        else:
            await session.take(_read_turn(session, asked))
        return session.view()

    def _running(self) -> Mapping[str, ServerFacts]:
        return self._stack.running() if self._stack else {}

    def _trying(self) -> StackToTry:
        if self._stack is None:
            raise UserError("there is no stack to try it in", "gym up NAME, and open the address that it prints")
        return self._stack

    def _row(self, name: str, number: int) -> Json:
        return EnvFiles(self._catalog.find(name, self._running()).directory).row(number)

    def _describe(self, name: str, running: Mapping[str, ServerFacts]) -> Json:
        entry = self._catalog.find(name, running)
        files, tools = EnvFiles(entry.directory), EnvFiles(entry.directory).tools_of_rows()
        return {
            **entry_view(entry, instances_of(name, running)),
            **self._catalog.facts(entry, running),
            "readme": files.readme(),
            "rows": files.rows(),
            "cases": files.cases(),
            "metrics": files.metrics(),
            "audits": self._catalog.audits(name),
            "tools": tools,
            "tools_from": "its example rows" if tools else "",
        }


def _read_turn(session: PersonSession, asked: Json) -> items.Item:
    text, tool, arguments = asked.get("say"), asked.get("tool"), asked.get("arguments", {})
    if isinstance(text, str) and tool is None:
        return items.message(text)
    if isinstance(tool, str) and isinstance(arguments, dict) and text is None:
        return session.call(tool, arguments)
    raise UserError(f"a turn is an answer or a call: {TURN}")
