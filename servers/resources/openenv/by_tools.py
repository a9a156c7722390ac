"""Any OpenEnv environment, unmodified, by tools: those of its MCP server, or one whose arguments are its action."""

from typing import Any, Literal

from playing import OpenEnvEpisode, OpenEnvRow, OpenEnvSettings, client_of, read_done, shown
from sessions import EndedByAction, Refused

from gym.server.adapters.tool_environment import (
    BadCall,
    OpenedTools,
    ToolEnvironment,
    ToolEnvironmentConfig,
    ToolReply,
)
from gym.server.asgi import Answer, Call
from gym.server.base import json_answer
from gym.wire.failures import RolloutError

TOOL_FAILURES = {"transport_error": "resources", "timeout": "timeout"}  # of a call's own errors; others are the model's


class OpenEnvToolsConfig(OpenEnvSettings, ToolEnvironmentConfig):
    tools: Literal["mcp", "action"] = "mcp"
    action_tool: str = "act"
    action_description: str = "Act once in the environment."


class OpenEnvTools(ToolEnvironment[OpenEnvEpisode]):
    config: OpenEnvToolsConfig

    async def start(self) -> None:
        self.client = self.own(client_of(self.name, self.config))

    async def open(self, row: OpenEnvRow) -> OpenedTools[OpenEnvEpisode]:
        session = await self.client.begin(row.reset, seconds=self.config.open_seconds)
        try:
            first = shown(session.first, self.config.observation_field)
            episode = OpenEnvEpisode.of(session, self.config, self.config.rewards)
            tools = await self.list_tools(episode) if self.config.tools == "mcp" else [await self.describe_action()]
            return OpenedTools(episode, tools, "" if first == "{}" else first)
        except BaseException:
            await session.aclose()
            raise

    async def list_tools(self, episode: OpenEnvEpisode) -> list[dict[str, Any]]:
        hint = "Where its actions are not calls of tools, say so: tools: action"
        try:
            reply = await episode.step({"type": "list_tools"})
        except Refused as error:
            raise RolloutError(
                "resources", f"the environment lists no tools: {error}. {hint}", retryable=False
            ) from None
        observation = reply.get("observation")
        listed = observation.get("tools") if isinstance(observation, dict) else None
        if not isinstance(listed, list) or not listed or not all(isinstance(one, dict) for one in listed):
            what = f"the environment lists no tools: {observation!r:.200}. {hint}"
            raise RolloutError("resources", what, retryable=False)
        return [{**one, "parameters": one.get("input_schema")} for one in listed]

    async def describe_action(self) -> dict[str, Any]:
        schema = await self.client.action_schema(seconds=self.config.open_seconds)
        fields = {key: one for key, one in (schema.get("properties") or {}).items() if key != "metadata"}
        described = {"name": self.config.action_tool, "description": self.config.action_description}
        return {**described, "parameters": {**schema, "properties": fields}}

    async def call(self, state: OpenEnvEpisode, name: str, arguments: dict[str, Any]) -> ToolReply:
        called = {"type": "call_tool", "tool_name": name, "arguments": arguments}
        try:
            reply = await state.step(called if self.config.tools == "mcp" else arguments)
        except EndedByAction as error:
            return ToolReply({"error": f"{error}. The episode is over."}, state.unchanged, done=True, reason=str(error))
        except Refused as error:
            raise BadCall(str(error)) from None
        output = self.read_output(reply) if self.config.tools == "mcp" else shown(reply, self.config.observation_field)
        return ToolReply(output, state.reward_of(reply), read_done(reply))

    def read_output(self, reply: dict[str, Any]) -> Any:
        """What a tool has returned; its own error is what the model reads."""
        observation = reply.get("observation")
        if not isinstance(observation, dict) or "tool_name" not in observation:
            return shown(reply, self.config.observation_field)
        error = observation.get("error")
        if isinstance(error, dict):
            kind = TOOL_FAILURES.get(str(error.get("error_type")))
            if kind:
                raise RolloutError("timeout" if kind == "timeout" else "resources", str(error.get("message")))
            return {"error": str(error.get("message"))}
        return read_result(observation.get("result"))

    async def discard(self, state: OpenEnvEpisode) -> None:
        await state.session.aclose()

    async def _on_reverify_mode(self, _: Call) -> Answer:
        return json_answer("stateless" if self.config.repeatable else "unsupported")


def read_result(result: Any) -> Any:
    """The texts of an MCP result, or whatever else it is."""
    content = result.get("content") if isinstance(result, dict) else None
    texts = [one.get("text") for one in content if isinstance(one, dict)] if isinstance(content, list) else []
    return "\n".join(map(str, texts)) if texts and None not in texts else result


app = OpenEnvTools.app()
