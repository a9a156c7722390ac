"""Any MCP server as an environment: its tools become routes and schemas, its answers what the model reads."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import Any, Self

from http_line import HttpLine
from lines import Line
from mcp_client import McpClient, Tools, compare_tools
from pydantic import Field, model_validator
from rollout_folders import RolloutFolders
from stdio_line import Keeper, StdioLine
from verification import CallMade, McpRow, Verification, read_verdict

from gym.errors import UserError
from gym.http.pool import HttpClient
from gym.server import VerifyRequest
from gym.server.adapters.tool_environment import (
    BadCall,
    OpenedTools,
    ToolEnvironment,
    ToolEnvironmentConfig,
    ToolReply,
)
from gym.server.score import Score
from gym.wire.failures import RolloutError

FOLDER = "{folder}"


class McpBridgeConfig(ToolEnvironmentConfig):
    command: tuple[str, ...] = ()  # a server on standard input and output: one process for each rollout
    url: str = ""  # or a server of streamable HTTP: one session for each rollout
    variables: dict[str, str] = Field(default_factory=dict)  # of the process, which inherits no others than PATH etc.
    headers: dict[str, str] = Field(default_factory=dict)
    shared: bool = False  # one process, or session, for all rollouts
    allow: tuple[str, ...] | None = None  # tools that the model is offered; None: all
    deny: tuple[str, ...] = ()
    verify: Verification = Verification(calls="made")
    start_seconds: float = Field(default=30.0, gt=0)
    call_seconds: float = Field(default=60.0, gt=0)
    stop_seconds: float = Field(default=0.5, ge=0)  # to end by itself, then it is killed
    tools_may_change: bool = False  # else a rollout is a failure when the tools are not those of the start
    infrastructure_errors: tuple[str, ...] = ()  # patterns: an error of a tool that matches is a failure
    max_output: int = Field(default=100_000, ge=1)  # characters of a text that the model reads

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.command) == bool(self.url):
            raise ValueError("name a `command` or a `url`, one of them")
        for pattern in self.infrastructure_errors:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"infrastructure_errors: {pattern!r}: {error}") from None
        return self


@dataclass(slots=True)
class McpSession:
    row: McpRow
    client: McpClient
    tools: Tools
    folder: str
    made: list[CallMade] = field(default_factory=list)


class McpBridge(ToolEnvironment[McpSession]):
    config: McpBridgeConfig
    reverify_mode = "unsupported"  # the calls were made in a world that has gone

    async def start(self) -> None:
        self._connecting = asyncio.Lock()
        self._shared: McpClient | None = None
        self._server_http = self.own(HttpClient(asks_health=False))
        self._keeper = self.own(await Keeper.start())
        self._folders = self.own(RolloutFolders.open())
        try:
            self._tools = await self._list_once()
            self._check_names()
        except RolloutError as error:
            await self.stop()
            raise UserError(f"{self.name}: {error.message}", "is its `command` or `url` right?") from None
        except BaseException:
            await self.stop()
            raise

    def _check_names(self) -> None:
        unknown = {*(self.config.allow or ()), *self.config.deny, self.config.verify.check_tool} - {"", *self._tools}
        if unknown:
            known = ", ".join(self._tools) or "none"
            raise UserError(f"{self.name}: the MCP server has no tool {min(unknown)!r}", f"it has: {known}")

    async def stop(self) -> None:
        if self._shared is not None:
            await self._shared.aclose()

    async def open(self, row: McpRow) -> OpenedTools[McpSession]:
        self._check_row(row)
        client, folder = await self._connect()
        try:
            tools = await self._checked_tools(client)
        except BaseException:
            await self._leave(client, folder)
            raise
        return OpenedTools(McpSession(row, client, tools, folder), self._offered(tools))

    async def call(self, state: McpSession, name: str, arguments: dict[str, Any]) -> ToolReply:
        try:
            output = await state.client.call_tool(name, arguments)
        except BadCall as error:
            await self._checked_tools(state.client)  # it may refuse because it has changed: that is not the model's
            raise BadCall(self._cut(str(error))) from None
        state.made.append(CallMade(name, arguments))
        return ToolReply(self._cut(output) if isinstance(output, str) else output)

    async def finish(self, state: McpSession, rollout: VerifyRequest) -> Score:
        row, by = McpRow.model_validate(rollout.model_dump(exclude={"response"})), self.config.verify
        self._check_row(row)
        if state.made:
            await self._checked_tools(state.client)
        if reason := by.reason_against(row, rollout.last_text, state.made):
            return Score(reward=0.0, reason=reason)
        if not by.check_tool:
            return Score(reward=1.0)
        try:
            said = await state.client.call_tool(by.check_tool, row.check_arguments or {})
        except BadCall as error:
            what = f"check_tool {by.check_tool} refused the row's check_arguments: {error}"
            raise RolloutError("resources", what, retryable=False) from None
        reward = read_verdict(said, by.check_tool)
        return Score(reward=reward, reason="" if reward else f"{by.check_tool} says so")

    async def discard(self, state: McpSession) -> None:
        await self._leave(state.client, state.folder)

    # Sessions with the MCP server.

    async def _connect(self) -> tuple[McpClient, str]:
        if self.config.shared:
            async with self._connecting:
                if self._shared is None or self._shared.broken:
                    if self._shared is not None:
                        await self._shared.aclose()
                    self._shared, _ = await self._new_client("")
                return self._shared, ""
        folder = self._folders.make() if self.config.command else ""
        return await self._new_client(folder)

    async def _new_client(self, folder: str) -> tuple[McpClient, str]:
        client: McpClient | None = None
        try:
            client = self._client(await self._line(folder))
            await client.start()
        except BaseException:
            if client is not None:
                await client.aclose()
            await self._folders.remove(folder)
            raise
        return client, folder

    async def _line(self, folder: str) -> Line:
        config = self.config
        if config.url:
            return HttpLine(self._server_http, config.url, config.headers)
        argv = [word.replace(FOLDER, folder) for word in config.command]
        return await StdioLine.open(
            argv, self._keeper, variables=config.variables, cwd=folder, stop_seconds=config.stop_seconds
        )

    def _client(self, line: Line) -> McpClient:
        config = self.config
        return McpClient(
            line,
            start_seconds=config.start_seconds,
            call_seconds=config.call_seconds,
            infrastructure=config.infrastructure_errors,
        )

    async def _leave(self, client: McpClient, folder: str) -> None:
        if client is not self._shared:
            await client.aclose()
            await self._folders.remove(folder)

    async def _list_once(self) -> Tools:
        client, folder = await self._connect()
        try:
            return await client.list_tools()
        finally:
            await self._leave(client, folder)

    async def _checked_tools(self, client: McpClient) -> Tools:
        tools = await client.list_tools()
        changed = "" if self.config.tools_may_change else compare_tools(self._tools, tools)
        if changed:
            what = f"the MCP server changed its tools since {self.name} started ({changed}); gym restart {self.name}"
            raise RolloutError("resources", what, retryable=False)
        return tools

    # What a model and a row may do.

    def _offered(self, tools: Tools) -> list[dict[str, Any]]:
        """The check tool only where it is allowed by name: who can ask it knows what to answer."""
        allow, check = self.config.allow, self.config.verify.check_tool
        names = [name for name in tools if (name != check if allow is None else name in allow)]
        return [tools[name] for name in names if name not in self.config.deny]

    def _check_row(self, row: McpRow) -> None:
        if missing := self.config.verify.missing_field(row):
            raise RolloutError("row", f"{missing}: Field required, as verify of {self.name} looks at it")

    def _cut(self, text: str) -> str:
        most = self.config.max_output
        return text if len(text) <= most else f"{text[:most]}\n[{len(text) - most} more characters]"


app = McpBridge.app()
