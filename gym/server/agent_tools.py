"""Other agents as tools: an agent's config names them, its model calls them, their steps travel with the rollout.

The steps of a called agent are not part of the lead's own conversation. They stand whole in `response.agent_calls`, so
that a trainer can use each call as a sample of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import orjson
from pydantic import Field

from gym.http.pool import Headers, Reply
from gym.labels import HEADER_DEPTH
from gym.server.asgi import CURRENT
from gym.server.config import Reference
from gym.wire import items
from gym.wire.failures import FailureKind, RolloutError, error_from_reply
from gym.wire.json_text import read_json, write_json

DEPTH = 8  # agents that ask agents that ask agents: beyond it they ask one another in a circle
TASK = {"type": "string", "description": "What to do, with all that is needed to do it: nothing else is known there."}
PARAMETERS = {"type": "object", "properties": {"task": TASK}, "required": ["task"], "additionalProperties": False}


class AgentTool(Reference):
    """`{type: responses_api_agents, name, description}`: an agent that this one's model may call as a tool."""

    description: str = ""
    """The description that the model is given."""
    max_calls: int | None = Field(default=20, ge=1)
    """Calls of it in one rollout; `null`: as many as the budgets allow."""

    def as_tool(self, tool: str) -> dict[str, Any]:
        description = self.description or f"Asks {self.name} to do something and returns its answer."
        return {"type": "function", "name": tool, "description": description, "parameters": PARAMETERS, "strict": True}


class Sender(Protocol):
    """`RolloutClient`, as far as it is needed here."""

    async def send(
        self, instance: str, path: str, body: bytes, *, kind: FailureKind, hop: str, headers: Headers = ()
    ) -> Reply: ...


class AgentTools:
    """The agents that one agent may call, for one rollout."""

    def __init__(self, known: Mapping[str, AgentTool]) -> None:
        self._known = known
        self._calls: dict[str, int] = {}
        self.record: list[dict[str, Any]] = []

    def __contains__(self, tool: str) -> bool:
        return tool in self._known

    def offered(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters with the agents among the tools; a row's own tool of the same name is replaced."""
        if not self._known:
            return dict(params)
        own = [tool for tool in params.get("tools") or () if tool.get("name") not in self._known]
        return {**params, "tools": own + [one.as_tool(tool) for tool, one in self._known.items()]}

    async def ask(self, call: items.Item, rollout: Sender) -> str:
        """The answer as the model reads it. A failure of its infrastructure is a failure of this rollout too."""
        tool = str(call["name"])
        agent = self._known[tool]
        arguments = orjson.loads(call.get("arguments") or "{}")
        task = arguments.get("task") if isinstance(arguments, dict) else None
        if not isinstance(task, str) or not task.strip():
            return _error(f'{tool} needs a task: {{"task": "..."}}')
        self._calls[tool] = self._calls.get(tool, 0) + 1
        if agent.max_calls is not None and self._calls[tool] > agent.max_calls:
            return _error(f"{tool} was asked {agent.max_calls} times, which is all that is allowed")
        response = await self._respond(agent, task, rollout)
        call_id = str(call.get("call_id") or call.get("id") or "")
        self.record.append({"call_id": call_id, "tool": tool, "agent": agent.name, "response": response})
        return items.last_assistant_text(response.get("output")) or _error(f"{tool} ended without an answer")

    async def _respond(self, agent: AgentTool, task: str, rollout: Sender) -> dict[str, Any]:
        depth = _depth() + 1
        if depth > DEPTH:
            raise RolloutError("agent", f"{depth} agents have asked one another: is there a circle?", retryable=False)
        body = write_json({"input": [{"type": "message", "role": "user", "content": task}]})
        headers = ((HEADER_DEPTH.encode(), str(depth).encode()),)
        reply = await rollout.send(agent.name, "/v1/responses", body, kind="agent", hop="agents", headers=headers)
        if reply.status >= 400:
            raise error_from_reply(reply.status, reply.body, server=agent.name, kind="agent")
        parsed = read_json(reply.body)
        if not isinstance(parsed, dict):
            raise RolloutError("agent", "answered with something that is not a response", server=agent.name)
        return parsed


def _depth() -> int:
    call = CURRENT.get()
    given = call.header(HEADER_DEPTH.encode()) if call is not None else None
    return int(given) if given and given.isdigit() else 0


def _error(message: str) -> str:
    return write_json({"error": message}).decode()
