"""A play's tools for an MCP client: streamable HTTP, every request by itself, without the package `mcp`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from gym import __version__
from gym.server.adapters.play_tools import PlayTool
from gym.server.asgi import Answer
from gym.wire.json_text import write_json

VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
PARSE_ERROR, NO_METHOD, BAD_PARAMS = -32700, -32601, -32602


async def answer_mcp(body: bytes, tools: Sequence[PlayTool]) -> Answer:
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return _failed(None, PARSE_ERROR, f"not JSON: {error}")
    if not isinstance(asked, dict) or not isinstance(asked.get("method"), str):
        return _failed(None, PARSE_ERROR, "one JSON-RPC request is needed")
    if "id" not in asked:
        return Answer(b"", 202)  # a notification
    given = asked.get("params")
    params = given if isinstance(given, dict) else {}
    match asked["method"]:
        case "initialize":
            return _done(asked, _introduction(str(params.get("protocolVersion"))))
        case "ping":
            return _done(asked, {})
        case "tools/list":
            return _done(asked, {"tools": [_describe(one) for one in tools]})
        case "tools/call":
            return await _call(asked, params, tools)
        case method:
            return _failed(asked["id"], NO_METHOD, f"there is no method {method!r:.100} here: there are tools alone")


async def _call(asked: Mapping[str, Any], params: Mapping[str, Any], tools: Sequence[PlayTool]) -> Answer:
    tool = next((one for one in tools if one.name == params.get("name")), None)
    if tool is None:
        known = ", ".join(one.name for one in tools) or "none"
        return _failed(asked["id"], BAD_PARAMS, f"there is no tool {params.get('name')!r:.100}; there are: {known}")
    text = await tool.call(params.get("arguments") or {})
    return _done(asked, {"content": [{"type": "text", "text": text}], "isError": False})


def _introduction(wanted: str) -> dict[str, Any]:
    version = wanted if wanted in VERSIONS else VERSIONS[0]
    named = {"name": "environment", "version": __version__}
    return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": named}


def _describe(tool: PlayTool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "inputSchema": tool.parameters}


def _done(asked: Mapping[str, Any], result: Mapping[str, Any]) -> Answer:
    return Answer(write_json({"jsonrpc": "2.0", "id": asked["id"], "result": result}))


def _failed(number: Any, code: int, message: str) -> Answer:
    return Answer(write_json({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}))
