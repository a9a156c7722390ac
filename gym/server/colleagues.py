"""Other agents as tools: an agent's config names them, its model calls them, their steps travel with the rollout.

What a colleague did is no part of the lead's own conversation: it stands in `response.agent_calls`, whole, so that a
trainer can use each of them as a sample of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import Field

from gym.labels import HEADER_DEPTH
from gym.server.asgi import CURRENT
from gym.server.config import Reference
from gym.server.rollout import Rollout
from gym.wire import items
from gym.wire.failures import RolloutError, error_from_reply
from gym.wire.json_text import read_json, write_json

DEPTH = 8  # agents that ask agents that ask agents: beyond it they ask one another in a circle
TASK = {"type": "string", "description": "What to do, with all that is needed to do it: nothing else is known there."}
PARAMETERS = {"type": "object", "properties": {"task": TASK}, "required": ["task"], "additionalProperties": False}


class Colleague(Reference):
    """`{type: responses_api_agents, name, description}`: an agent that this one's model may call as a tool."""

    description: str = ""
    max_calls: int | None = Field(default=20, ge=1)

    def as_tool(self, tool: str) -> dict[str, Any]:
        description = self.description or f"Asks {self.name} to do something and returns its answer."
        return {"type": "function", "name": tool, "description": description, "parameters": PARAMETERS, "strict": True}


class Colleagues:
    """Those of one agent, for one rollout."""

    def __init__(self, known: Mapping[str, Colleague]) -> None:
        self._known = known
        self._calls: dict[str, int] = {}
        self.record: list[dict[str, Any]] = []

    def __contains__(self, tool: str) -> bool:
        return tool in self._known

    def offered(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters with the colleagues among the tools; a row's own tool of the same name is replaced."""
        if not self._known:
            return dict(params)
        own = [tool for tool in params.get("tools") or () if tool.get("name") not in self._known]
        return {**params, "tools": own + [one.as_tool(tool) for tool, one in self._known.items()]}

    async def ask(self, call: items.Item, rollout: Rollout) -> str:
        """The answer as the model reads it. A colleague whose infrastructure fails is a failure of this rollout too."""
        tool = str(call["name"])
        colleague = self._known[tool]
        arguments = orjson.loads(call.get("arguments") or "{}")
        task = arguments.get("task") if isinstance(arguments, dict) else None
        if not isinstance(task, str) or not task.strip():
            return _told(f'{tool} needs a task: {{"task": "..."}}')
        self._calls[tool] = self._calls.get(tool, 0) + 1
        if colleague.max_calls is not None and self._calls[tool] > colleague.max_calls:
            return _told(f"{tool} was asked {colleague.max_calls} times, which is all that is allowed")
        response = await self._respond(colleague, task, rollout)
        call_id = str(call.get("call_id") or call.get("id") or "")
        self.record.append({"call_id": call_id, "tool": tool, "agent": colleague.name, "response": response})
        return items.last_assistant_text(response.get("output")) or _told(f"{tool} ended without an answer")

    async def _respond(self, colleague: Colleague, task: str, rollout: Rollout) -> dict[str, Any]:
        depth = _depth() + 1
        if depth > DEPTH:
            raise RolloutError("agent", f"{depth} agents have asked one another: is there a circle?", retryable=False)
        body = write_json({"input": [{"type": "message", "role": "user", "content": task}]})
        headers = ((HEADER_DEPTH.encode(), str(depth).encode()),)
        reply = await rollout.send(colleague.name, "/v1/responses", body, kind="agent", hop="agents", headers=headers)
        if reply.status >= 400:
            raise error_from_reply(reply.status, reply.body, server=colleague.name, kind="agent")
        parsed = read_json(reply.body)
        if not isinstance(parsed, dict):
            raise RolloutError("agent", "answered with something that is no response", server=colleague.name)
        return parsed


def _depth() -> int:
    call = CURRENT.get()
    given = call.header(HEADER_DEPTH.encode()) if call is not None else None
    return int(given) if given and given.isdigit() else 0


def _told(message: str) -> str:
    return write_json({"error": message}).decode()
