"""Spans of what a server answers: one around each handler; without tracing a server has its handlers as they are.

The route says what the span is called; a tool is any route of a resources server that the contract does not name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import orjson

from gym.http.tracing import Span, Tracer
from gym.server.asgi import Answer, Call, Handler
from gym.server.tools import RESERVED
from gym.wire.genai import Attributes, describe_agent, describe_content, describe_reply, describe_request, describe_tool
from gym.wire.pieces import join_body

PATHS: Final = {
    "/run": "invoke_agent",
    "/verify": "verify",
    "/seed_session": "seed_session",
    "/close_session": "close_session",
    "/aggregate_metrics": "aggregate_metrics",
    "/v1/responses": "chat",
    "/v1/chat/completions": "chat",
    "/v1/messages": "chat",
    "/v1/completions": "text_completion",
}
LONGEST_REPLY: Final = 4 << 20  # of a verifier; a longer one is not read for its reward


@dataclass(frozen=True, slots=True)
class TracedRoutes:
    """Of one server."""

    tracer: Tracer
    server: str
    role: str

    def table(self, table: Mapping[tuple[str, str], Handler]) -> dict[tuple[str, str], Handler]:
        """Each POST; questions about health, models and recorded calls are not part of a rollout."""
        return {key: self._traced(one) if key[0] == "POST" else one for key, one in table.items()}

    def finder(self, find: Callable[[str, str], Handler | None]) -> Callable[[str, str], Handler | None]:
        def find_traced(method: str, path: str) -> Handler | None:
            found = find(method, path)
            return found if found is None or method != "POST" else self._traced(found)

        return find_traced

    def _traced(self, handler: Handler) -> Handler:
        return partial(self._serve, handler)

    async def _serve(self, handler: Handler, call: Call) -> Answer:
        name, attributes = _name(call, self.role, self.server)
        with self.tracer.span(name, "server", attributes, call.headers) as span:
            answer = await handler(call)
            _describe_answer(span, call, answer, self.tracer)
            return answer


def describe_model_call(tracer: Tracer, body: Mapping[str, Any], reply: Mapping[str, Any]) -> None:
    """Of the model server's own span: tokens are counted there, and in no other span of the call."""
    found = {**describe_request(body), **describe_reply(reply)}
    if tracer.content:
        found |= describe_content(body, reply)
    asked = found.get("gen_ai.request.model") or found.get("gen_ai.response.model")
    tracer.annotate(found, name=f"chat {asked}" if asked else "")


def _name(call: Call, role: str, server: str) -> tuple[str, Attributes]:
    attributes: Attributes = {
        "http.request.method": call.method,
        "url.path": call.path[:200],
        "gym.instance": server,
        "gym.rollout.id": call.rollout_id,
        "gen_ai.conversation.id": call.rollout_id,
    }
    tool = call.path[1:]
    if role == "resources" and tool not in RESERVED and "/" not in tool:
        return f"execute_tool {tool}", {**attributes, **describe_tool(tool)}
    name = PATHS.get(call.path, call.path[1:200])
    if role == "agent" and name in ("chat", "invoke_agent"):
        return f"invoke_agent {server}", {**attributes, **describe_agent(server)}
    return name, attributes


def _describe_answer(span: Span, call: Call, answer: Answer, tracer: Tracer) -> None:
    span.set({"http.response.status_code": answer.status})
    if answer.status >= 500:
        span.fail(str(answer.status), "")
    if call.path == "/verify":
        span.set({"gym.reward": _reward(join_body(answer.body))})
    elif tracer.content and call.path[1:] not in RESERVED and not call.path.startswith("/v1/"):
        span.set(
            {"gen_ai.tool.call.arguments": _text(call.body), "gen_ai.tool.call.result": _text(join_body(answer.body))}
        )


def _reward(body: bytes) -> float | None:
    if len(body) > LONGEST_REPLY:
        return None
    try:
        reward = orjson.loads(body).get("reward")
    except (orjson.JSONDecodeError, AttributeError):
        return None
    return float(reward) if isinstance(reward, (int, float)) else None


def _text(body: bytes) -> str:
    return body[:65536].decode("utf-8", "replace")
