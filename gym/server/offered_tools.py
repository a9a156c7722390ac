"""The tools that rows offer a model, held against those that their server has."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from gym.errors import GymError, Problem
from gym.server.base import Server, ServerApp
from gym.server.case_rows import numbered_lines
from gym.server.config import Settings
from gym.server.resources import ResourcesServer
from gym.wire.rows import PARAMS, fill_tools

MCP_PREFIX = "mcp__"


def tools_of(server: Server | None) -> list[dict[str, Any]]:
    """As `GET /tools` says them."""
    return [one.schema() for one in server.tools.values()] if isinstance(server, ResourcesServer) else []


def fill_own_tools(row: Mapping[str, Any], server: Server | None) -> dict[str, Any]:
    return fill_tools(row, lambda: tools_of(server))


def unknown_tools(tools: Sequence[Any], server: ResourcesServer[Any]) -> Iterator[Problem]:
    """Of a server that has none of its own, or routes that no list names, nothing can be said."""
    if not server.tools or _takes_others(type(server)):
        return
    for place, tool in enumerate(tools):
        name = tool.get("name") if isinstance(tool, Mapping) and tool.get("type", "function") == "function" else None
        if isinstance(name, str) and name not in server.tools and not name.startswith(MCP_PREFIX):
            near = difflib.get_close_matches(name, server.tools, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has: {', '.join(server.tools)}"
            yield Problem(f"is not a tool of {server.name}", key=f"{PARAMS}.tools[{place}].name", hint=hint, value=name)


def _takes_others(kind: type[ResourcesServer[Any]]) -> bool:
    own = (kind.extend, kind.find_tool, kind.find_route)
    return own != (ResourcesServer.extend, Server.find_tool, Server.find_route)


async def check_examples(app: ServerApp, name: str, fields: Mapping[str, Any], path: Path) -> list[str]:
    """One line for each tool of an example row that the server lacks."""
    try:
        server = app.make(Settings(name=name, fields=fields))
    except GymError:  # its cases give it what its configuration leaves out
        return []
    try:
        return list(_lines(server, path)) if isinstance(server, ResourcesServer) and path.is_file() else []
    finally:
        await server.close_owned()


def _lines(server: ResourcesServer[Any], path: Path) -> Iterator[str]:
    for number, line in numbered_lines(path):
        with suppress(orjson.JSONDecodeError):  # what is not a row is reported elsewhere
            params = row.get(PARAMS) if isinstance(row := orjson.loads(line), dict) else None
            tools = params.get("tools") if isinstance(params, dict) else None
            for one in unknown_tools(tools if isinstance(tools, list) else (), server):
                yield f"{path.parent.name}/{path.name}:{number}: {one.key}: {one.value} {one.what}; {one.hint}"
