"""docs/reference/http.md: the routes of the router and its console, of every kind of server and of the sandbox broker."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, get_args

from fastapi.testclient import TestClient
from starlette.routing import Route

from gym import labels
from gym.broker.app import ROUTES as BROKER
from gym.collect import AttemptOptions
from gym.console.app import HEALTH, METHODS, Deps, make_app
from gym.console.group_streams import StreamCommand, WireSource
from gym.console.rollout_streams import RolloutRequest
from gym.server import Agent, Model, ResourcesServer, VerifyRequest
from gym.server.base import ServerApp
from gym.trainers import GroupOptions
from gym.trainers.group_options import Curriculum
from gym.wire.failures import FailureKind
from reference_pages.fields import cell, constant_comments, field_rows, first_paragraph, table

HEAD = """# Reference: HTTP

Written by `scripts/reference` from the routes and models in the code; a test checks that it is current. `GET /docs` of every server shows
its own, with schemas.

The router listens on port {port}. `/s/INSTANCE/PATH` is PATH of a server; everything else is the console's. Where the stack has a token,
send `Authorization: Bearer TOKEN`.
"""
FAILURES = """## Failures

Every refusal is `{{"error": {{"kind", "server", "message", "retryable"}}}}` with status 4xx (the row's fault, or the request's) or 5xx
(infrastructure), and the header `{header}` has the kind. A failure is never a reward. Kinds: {kinds}.
"""
ROLLOUTS = """## `POST /rollouts`

Rows in, verified rollouts out as NDJSON, each as soon as it has finished. The client's reading speed is the run's: what it does not take is
not begun. When the client goes, the run is gone too. Nothing touches the disk.

The body is JSONL, one row a line (then options are in the query: `?repeats=4`), or one object: `{"rows": [...]}` with the options beside
`rows` or below `options`. An option that does not exist, or a bad row, is refused with 422 before anything runs.

Each line of the reply is what `gym rollouts` would have written: the row, `response`, `reward` and `_gym` (key, agent, attempt, times), or
a failure: `kind`, `server`, `message`, the row, and no `reward`. A failure is a line, not a status.
Where the stack stays unhealthy for longer than `max_pause`, the last line is `{"error": {...}}`.
"""
TOOLS = """`tools: "auto"` in a row's `responses_create_params` stands for the tools of its agent's server.
"""
GROUPS = """### Groups

With `size` or `sources` in it the same request gives groups for a trainer ([trainers.md](../trainers.md)): one line a group, and a last
line `{{"stream": {{…}}}}` that says how it went. The header `{header}` of the reply is the stream's id. `agent` is for rows that name none.
"""
STEER = """### `GET /rollouts/ID`, `POST /rollouts/ID`

The progress of a stream of groups; with POST, commands for it, carried out in this order:
"""


class Environment(ResourcesServer[None]):
    async def verify(self, rollout: VerifyRequest) -> float:
        return 0.0


class Policy(Model):
    async def respond(self, params: dict[str, Any]) -> dict[str, Any]:
        return params


def page() -> str:
    attempt = [one for one in field_rows(GroupOptions) if one.name in {row.name for row in field_rows(AttemptOptions)}]
    own = [one for one in field_rows(GroupOptions) if one not in attempt]
    parts = [
        HEAD.format(port=labels.ROUTER_PORT),
        FAILURES.format(header=labels.HEADER_ERROR, kinds=", ".join(f"`{one}`" for one in get_args(FailureKind))),
        ROLLOUTS,
        table(field_rows(RolloutRequest), "option"),
        TOOLS,
        GROUPS.format(header=labels.HEADER_STREAM),
        table([*own, *attempt], "option"),
        f"Each of `sources` has\n\n{table(field_rows(WireSource))}",
        f"and `curriculum`\n\n{table(field_rows(Curriculum))}",
        STEER,
        table(field_rows(StreamCommand)),
        f"## The console\n\nAt the router's own address. Its pages for people are below `/view`: [console.md](../console.md).\n\n{_routes(_console())}",
        f"## Every environment\n\nA tool is `POST /TOOL` with its arguments as the body.\n\n{_routes(_server(Environment.app({})))}",
        f"## Every agent\n\n{_routes(_server(Agent.app({})))}",
        f"## Every model\n\n{_routes(_server(Policy.app({})))}",
        f"## The sandbox broker\n\nInside the stack, for servers that hold a grant; a token each ([sandboxes.md](../sandboxes.md)).\n\n{_routes(_broker())}",
        f"## Headers\n\n{_headers()}",
    ]
    return "\n".join(parts)


def _routes(rows: Iterable[tuple[str, str, str]]) -> str:
    lines = [f"| `{method} {path}` | {cell(text)} |" for method, path, text in rows]
    return "\n".join(["| | |", "|---|---|", *lines]) + "\n"


def _console() -> list[tuple[str, str, str]]:
    nothing: Any = None
    app = make_app(Deps(sources=nothing, prober=nothing))
    found = []
    for route in app.routes:
        if isinstance(route, Route) and not route.path.startswith(
            ("/s/", "/view", "/refused", "/auth", "/same-origin")
        ):
            methods = sorted(set(route.methods or ()) - {"HEAD"})
            if methods != sorted(METHODS) and route.path not in HEALTH[1:]:
                found.append((", ".join(methods), route.path, _docstring(route.endpoint)))
    return [*found, ("GET", "/metrics", "The router's own metrics, for Prometheus.")]


def _server(app: ServerApp) -> list[tuple[str, str, str]]:
    """As its own `/docs` shows them."""
    with TestClient(app) as client:
        paths = client.get("/openapi.json").json()["paths"]
    found = []
    for path, operations in paths.items():
        for method, operation in operations.items():
            if (summary := operation["summary"]) != path:  # what only says that nothing is there has none
                found.append((method.upper(), path, summary))
    return found


def _broker() -> list[tuple[str, str, str]]:
    return [(*shape.split(" ", 1), _docstring(handler)) for shape, handler in BROKER.items()]  # type: ignore[misc]


def _docstring(handler: Callable[..., Any]) -> str:
    function = handler.func if isinstance(handler, partial) else handler
    if not (text := first_paragraph(inspect.getdoc(function))):
        raise SystemExit(f"{function.__module__}.{function.__qualname__}: the route has no docstring")
    return text


def _headers() -> str:
    names = {name: getattr(labels, name) for name in vars(labels) if name.startswith("HEADER_")}
    comments = constant_comments()
    lines = [f"| `{value}` | {cell(comments[name])} |" for name, value in names.items()]
    return "\n".join(["| header | meaning |", "|---|---|", *lines]) + "\n"
