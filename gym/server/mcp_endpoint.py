"""`/mcp` of a resources server: an ASGI app around the `mcp` package, imported only where MCP is asked for.

Every request stands alone (stateless, JSON replies): a rollout's session is the token's, not the connection's.
"""

from __future__ import annotations

import logging
from typing import Any

from jsonschema import Draft202012Validator
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)
from pydantic import ValidationError
from pydantic_core import from_json

from gym import __version__
from gym.labels import HEADER_MCP_SESSION
from gym.server import tools
from gym.server.asgi import Receive, Scope, Send
from gym.server.errors import error_to_failure, validation_detail
from gym.server.mcp_tokens import TOKEN_HEADER, ToolServer, read_token
from gym.server.request_body import MAX_BODY
from gym.wire.failures import RolloutError
from gym.wire.json_text import write_json

Context = ServerRequestContext[Any, Any]


class McpEndpoint:
    """ASGI."""

    def __init__(self, server: ToolServer) -> None:
        self._server = server
        self._schemas = {name: one.result_schema() for name, one in server.tools.items()}
        self._tools = [_tool_to_mcp(one, self._schemas[name]) for name, one in server.tools.items()]
        self._protocol: Server[Any] = Server(
            server.name, version=__version__, on_list_tools=self._list_tools, on_call_tool=self._call_tool
        )
        logging.getLogger("mcp.server").setLevel(logging.WARNING)  # it logs the beginning and end of every request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # One manager a request: its tasks end with the request that owns them.
        manager = StreamableHTTPSessionManager(
            self._protocol, json_response=True, stateless=True, max_request_body_size=MAX_BODY
        )
        async with manager.run():
            await manager.handle_request(scope, receive, send)

    async def _list_tools(self, _: Context, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=self._tools)

    async def _call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        """The text is the one that the HTTP route would have answered with."""
        headers = context.request.headers if context.request else {}
        try:
            body = await self._run(params, headers.get(HEADER_MCP_SESSION, ""))
            return _result(body, structured=self._structured(params.name, body))
        except ValidationError as error:
            return _result(validation_detail(error), failed=True)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (a boundary, as HotRoutes is: every failure becomes the tool's text)
            failure = error_to_failure(error, server=self._server.name, role=self._server.role, code=False)
            return _result(self._server.own_secrets.mask_failure(failure).to_body(), failed=True)

    def _structured(self, name: str, body: bytes) -> dict[str, Any] | None:
        """What the text says, as the tool's schema promises it: a client refuses everything else."""
        schema = self._schemas[name]
        if schema is None:
            return None
        value = from_json(body)
        structured: dict[str, Any] = {"result": value} if schema.wraps else value
        fault = next(iter(Draft202012Validator(schema.schema).iter_errors(structured)), None)
        if fault is not None:
            what = f"{name} returned what its signature does not say: {fault.json_path}: {fault.message[:300]}"
            raise RolloutError("resources", what, retryable=False)
        return structured

    async def _run(self, params: CallToolRequestParams, token: str) -> bytes:
        session_id = read_token(self._server.mcp_key, token)
        tool = self._server.tools.get(params.name)
        if tool is None:
            known = ", ".join(self._server.tools) or "none"
            raise RolloutError("row", f"there is no tool named {params.name!r}; there are: {known}", status=404)
        if tool.wants_state and not session_id:
            raise RolloutError("row", f"401: {TOKEN_HEADER} is missing: /seed_session hands one out", status=401)
        result, _ = await self._server.call_tool(tool, write_json(params.arguments or {}), session_id)
        return tool.write(result)


def _tool_to_mcp(one: tools.Tool, result: tools.ResultSchema | None) -> Tool:
    input_schema, output_schema = one.schema()["parameters"], result.schema if result else None
    return Tool(name=one.name, description=one.description, input_schema=input_schema, output_schema=output_schema)


def _result(body: bytes, *, structured: dict[str, Any] | None = None, failed: bool = False) -> CallToolResult:
    content = TextContent(type="text", text=body.decode())
    more = {"structured_content": structured} if structured is not None else {}
    return CallToolResult(content=[content], is_error=failed, **more)
