"""The Stack section: its page and its JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gym.config.redaction import redact
from gym.console.discovery_sources import DiscoverySources, ServerFacts
from gym.console.origin import find_origin
from gym.console.pages.shell import Section, answering, json_reply
from gym.console.probes import Probe
from gym.console.stack.log_tails import LogTails
from gym.console.stack.stack_view import StackParts, StackView
from gym.errors import UserError
from gym.http.pool import HttpClient
from gym.wire.discovery import Discovery

API: Final = "/view/api/stack"
SCRIPTS: Final = ("servers.js", "drawing.js", "logs.js", "page.js")
SENT: Final = "What servers sent here. Router, broker and foreign images send nothing: gym logs NAME has all of it."
NO_LOGS: Final = "No process of this stack keeps a log that the console can read."


class StackProber(Protocol):
    async def probe(self, discovery: Discovery, facts: Mapping[str, ServerFacts]) -> Mapping[str, Probe]: ...


def make_section(
    sources: DiscoverySources,
    prober: StackProber,
    parts: StackParts,
    client: HttpClient | None,
    running: Callable[[], list[dict[str, Any]]],
) -> Section:
    """`running`: the collections of now."""
    pages = _StackPages(sources, prober, parts, client, running)
    routes = [
        Route(f"{API}/overview", pages.overview),
        Route(f"{API}/config", answering(pages.config)),
        Route(f"{API}/logs", answering(pages.logs)),
        Route(f"{API}/logs/{{name}}", answering(pages.log)),
    ]
    return Section("stack", "Stack", "gym.console.stack", SCRIPTS, routes=routes)


class _StackPages:
    def __init__(
        self,
        sources: DiscoverySources,
        prober: StackProber,
        parts: StackParts,
        client: HttpClient | None,
        running: Callable[[], list[dict[str, Any]]],
    ) -> None:
        self._sources = sources
        self._prober = prober
        self._running = running
        self._contained = parts.contained
        self._logs = LogTails(parts.logs)
        self._view = StackView(parts, client)

    async def overview(self, request: Request) -> Response:
        found, config = await self._sources.discovery(), self._sources.config()
        probes = await self._prober.probe(found, config.servers)
        view = await self._view.look(found, config, probes, find_origin(request.headers, found.router))
        return json_reply(view | {"collections": self._running()})

    def config(self, _: Request) -> Response:
        """As it was when the stack was planned, secrets masked."""
        from gym.render.yaml_text import escape_interpolation, to_yaml  # noqa: PLC0415 (20 ms, for who looks at it)

        return json_reply({"text": to_yaml(escape_interpolation(redact(self._sources.config().config)))})

    def logs(self, _: Request) -> Response:
        names = self._logs.names()
        problem = "" if names else NO_LOGS
        return json_reply({"names": names, "problem": problem, "note": SENT if names and self._contained else ""})

    def log(self, request: Request) -> Response:
        asked = request.query_params
        lines = asked.get("lines", "200")
        if not lines.isdecimal() or len(lines) > 6:
            raise UserError(f"lines is a whole number, found {lines[:40]!r}")
        return json_reply(self._logs.read(request.path_params["name"], asked.get("text", "")[:500], int(lines)))
