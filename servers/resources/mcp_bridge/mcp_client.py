"""One session with an MCP server: its tools, and calls of them. What the server itself does wrong is a failure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from lines import CLIENT, Line, LineBroken, LineLate, Message

from gym.server.adapters.tool_environment import BadCall
from gym.wire.failures import RolloutError

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")  # all that begin with `initialize`
OUR_FAULT = (-32700, -32600, -32601)  # no JSON, no request, no such method: nothing that a model has written
MOST_TOOLS = 1000
Tools = dict[str, dict[str, Any]]


class McpClient:
    """`start` it, then `list_tools` and `call_tool`."""

    def __init__(self, line: Line, *, start_seconds: float, call_seconds: float, infrastructure: Sequence[str]) -> None:
        self.broken = False  # nothing can be asked any more
        self._line = line
        self._start_seconds = start_seconds
        self._call_seconds = call_seconds
        self._infrastructure = [re.compile(one) for one in infrastructure]
        self._ids = itertools.count(1)

    async def start(self) -> None:
        offer = {"protocolVersion": VERSIONS[0], "capabilities": {}, "clientInfo": CLIENT}
        reply = await self._ask("initialize", offer, self._start_seconds)
        if "error" in reply:
            raise self._fail(f"it refused to begin: {_error_text(reply)}; this bridge speaks MCP {', '.join(VERSIONS)}")
        version = _object(reply.get("result")).get("protocolVersion")
        if version not in VERSIONS:
            raise self._fail(f"it speaks MCP {version!r}; this bridge speaks {', '.join(VERSIONS)}")
        self._line.version = str(version)
        try:
            await self._line.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
        except (LineBroken, LineLate) as broken:
            raise RolloutError("resources", f"the MCP server: initialized: {broken}", retryable=True) from None

    async def list_tools(self) -> Tools:
        """By the server's own names, as a row's `tools` list describes them."""
        found: Tools = {}
        page: dict[str, Any] = {}
        while True:
            reply = await self._ask("tools/list", page, self._start_seconds)
            result = reply.get("result")
            listed = result.get("tools") if isinstance(result, dict) else None
            if not isinstance(listed, list):
                raise self._fail(f"tools/list: {_error_text(reply)}")
            for one in listed:
                found |= self._read_tool(one)
            page = {"cursor": result.get("nextCursor")} if isinstance(result, dict) else {}
            if not page.get("cursor") or len(found) > MOST_TOOLS:
                return found

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """What the tool says; BadCall where it refuses, which is the model's to read."""
        reply = await self._ask("tools/call", {"name": name, "arguments": arguments}, self._call_seconds)
        if (error := reply.get("error")) is not None:
            text = _error_text(reply)
            if _object(error).get("code") in OUR_FAULT:
                raise self._fail(f"tools/call: {text}")
            raise self._refusal(name, text)
        result = reply.get("result")
        if not isinstance(result, dict):
            raise self._fail(f"tools/call of {name} answered with no result: {str(reply)[:300]}")
        output = read_output(result)
        if result.get("isError"):
            raise self._refusal(name, output if isinstance(output, str) else str(output))
        return output

    async def aclose(self) -> None:
        self.broken = True
        await self._line.aclose()

    async def _ask(self, method: str, params: dict[str, Any], seconds: float) -> Message:
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        try:
            return await self._line.ask(message, seconds)
        except LineLate as late:
            await self._cancel(message["id"])
            raise RolloutError("timeout", f"the MCP server: {method}: {late}") from None
        except LineBroken as broken:
            self.broken = True
            raise RolloutError("resources", f"the MCP server: {method}: {broken}", retryable=True) from None

    async def _cancel(self, number: Any) -> None:
        params = {"requestId": number, "reason": "timeout"}
        try:
            await self._line.tell({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        except (LineBroken, LineLate):
            self.broken = True

    def _read_tool(self, given: Any) -> Tools:
        tool = _object(given)
        name, schema = tool.get("name"), tool.get("inputSchema")
        if not isinstance(name, str) or not isinstance(schema, dict):
            raise self._fail(f"tools/list has a tool without a name or an inputSchema: {str(given)[:200]}")
        parameters = {"properties": {}, **schema, "type": "object"}
        return {name: {"name": name, "description": str(tool.get("description") or ""), "parameters": parameters}}

    def _refusal(self, name: str, text: str) -> Exception:
        if any(pattern.search(text) for pattern in self._infrastructure):
            return RolloutError("resources", f"the MCP server: {name}: {text[:2000]}", retryable=True)
        return BadCall(text)

    def _fail(self, what: str) -> RolloutError:
        return RolloutError("resources", f"the MCP server: {what}", retryable=False)


def read_output(result: Mapping[str, Any]) -> Any:
    """The structured content where there is one, else the texts; what is neither is named."""
    structured = result.get("structuredContent")
    if structured is not None:
        return structured["result"] if isinstance(structured, dict) and set(structured) == {"result"} else structured
    content = result.get("content")
    return "\n".join(_part_text(one) for one in content) if isinstance(content, list) else ""


def compare_tools(before: Tools, now: Tools) -> str:
    """What has changed; empty for nothing."""
    changed = sorted(name for name in before.keys() & now.keys() if before[name] != now[name])
    kinds = (("gone", sorted(before.keys() - now.keys())), ("new", sorted(now.keys() - before.keys())))
    return "; ".join(f"{kind}: {', '.join(names)}" for kind, names in (*kinds, ("other", changed)) if names)


def _part_text(part: Any) -> str:
    given = _object(part)
    resource = _object(given.get("resource"))
    text = given.get("text", resource.get("text"))
    if isinstance(text, str):
        return text
    where = given.get("uri") or resource.get("uri") or ""
    return f"[{given.get('type')} {where or given.get('mimeType') or ''}: no text]"


def _error_text(reply: Message) -> str:
    error = _object(reply.get("error"))
    return str(error.get("message") or error or f"an unexpected reply: {str(reply)[:300]}")


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
