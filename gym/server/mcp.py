"""The same tools over MCP (streamable HTTP at `/mcp`), for agents that speak it. Needs the extra `mcp`.

A rollout's session travels in a signed header that `/seed_session` hands out, because MCP clients keep no cookies.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from gym.errors import UserError
from gym.server.mcp_tokens import TOKEN_HEADER, ToolServer, sign_session

if TYPE_CHECKING:
    from fastapi import FastAPI

PATH = "/mcp"


def advert(server: ToolServer, session_id: str) -> dict[str, Any]:
    """What `/seed_session` says about MCP."""
    headers = {TOKEN_HEADER: sign_session(server.mcp_key, session_id)}
    return {"server_name": server.name, "url_path": PATH, "transport": "http", "headers": headers}


def mount(app: FastAPI, server: ToolServer) -> None:
    from starlette.routing import Route  # noqa: PLC0415 (imported with FastAPI, which most servers never need)

    try:
        from gym.server.mcp_endpoint import McpEndpoint  # an idle server without MCP is not to pay 25 MB for it
    except ImportError as error:
        what = f"{server.name}: expose_tools_over_mcp needs the package `mcp`: {error}"
        raise UserError(what, "pip install 'compose-gym[mcp]', or name compose-gym[mcp] in requirements.txt") from None
    endpoint = McpEndpoint(server)
    for path in (PATH, PATH + "/"):  # a redirect from one to the other would know nothing of the router's prefix
        app.router.routes.append(Route(path, endpoint=endpoint))


def take_prefixes_off(request: Any, server_name: str) -> None:
    """Calls in the response of a verify request under their own names: `mcp__weather__get` is `get`."""
    output = getattr(getattr(request, "response", None), "output", None)
    names = {f"mcp__{server_name}__", f"mcp__{re.sub(r'[^A-Za-z0-9_-]', '_', server_name)}__"}  # as clients spell it
    for item in output if isinstance(output, list) else ():
        name = item.get("name") if isinstance(item, dict) else None
        for prefix in names:
            if isinstance(name, str) and name.startswith(prefix):
                item["name"] = name.removeprefix(prefix)
