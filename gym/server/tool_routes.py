"""Tools over HTTP: a route for each, which runs it in its caller's session, and `/tools` with the schemas of all."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import ValidationError

from gym.server.asgi import Answer, Call, Route
from gym.server.base import json_answer
from gym.server.errors import error_to_failure, validation_detail
from gym.server.mcp_tokens import ToolServer
from gym.server.tools import Tool

ReadCookie = Callable[[Call], str]
SetCookie = Callable[[str], tuple[tuple[bytes, bytes], ...]]


def tool_routes(server: ToolServer, read_cookie: ReadCookie, set_cookie: SetCookie) -> list[Route]:
    """`read_cookie` gives the id of a caller's session, `set_cookie` the headers that hand one out."""

    async def list_tools(_: Call) -> Answer:
        return json_answer([one.schema() for one in server.tools.values()])

    listing = Route("/tools", list_tools, "The tools' schemas", method="GET")
    return [listing, *(_tool_route(server, one, read_cookie, set_cookie) for one in server.tools.values())]


def _tool_route(server: ToolServer, tool: Tool, read_cookie: ReadCookie, set_cookie: SetCookie) -> Route:
    async def call_it(call: Call) -> Answer:
        given = read_cookie(call)
        try:
            result, session_id = await server.call_tool(tool, call.body, given)
        except ValidationError as error:
            return Answer(validation_detail(error), 422)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (HotRoutes catches all; a policy reads what a tool raised, and needs no code)
            raise error_to_failure(
                error, server=server.name, role=server.role, rollout_id=call.rollout_id, code=False
            ) from error
        return Answer(tool.write(result), headers=set_cookie(session_id) if session_id != given else ())

    return Route(f"/{tool.name}", call_it, tool.description.partition("\n")[0], tool.arguments)
