"""The tools of an agent's resources server, for rows that list none: put into them on request, else missed aloud."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import orjson

from gym.collect.stack_settings import StackSettings, read_settings
from gym.collect.targets import Targets
from gym.data.row_parsing import PARAMS
from gym.errors import InfraError
from gym.http.pool import Reply
from gym.labels import SERVER_PREFIX
from gym.wire.rows import AUTO, DEFAULTS

_TOOLS = "tools"
TOOLS_SECONDS = 30.0
log = logging.getLogger("gym.collect")

Tools = tuple[dict[str, Any], ...]
AskTools = Callable[[str], Awaitable[Reply | None]]  # `GET /tools` of a server by its name; None: no answer


class NoTools(ValueError):
    """A row asks for the tools of its server, and they are not known."""


@dataclass(frozen=True, slots=True)
class RowTools:
    """What `GET /tools` says, by agent. `missing` gathers the agents whose rows list none of them."""

    by_agent: Mapping[str, Tools] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)  # by agent, why nothing is known
    elsewhere: frozenset[str] = frozenset()  # agents that may find the tools by other ways: over MCP
    fill: bool = False  # every row that lists none, whatever it says
    missing: dict[str, None] = field(default_factory=dict)
    logs: bool = False  # a program that collects, or one over HTTP, sees no notices

    def add_to(self, row: dict[str, Any], agent: str) -> bool:
        """Whether the row is another one now. `[]` is a list: of no tools."""
        params = row[PARAMS]
        asked = params.get(_TOOLS) == AUTO
        if not asked and lists_tools(row):
            return False
        if asked or self.fill:
            self._check_known(agent)
            row[PARAMS] = {**params, _TOOLS: list(self.by_agent.get(agent, ()))}
            return True
        if self.by_agent.get(agent) and agent not in self.elsewhere and agent not in self.missing:
            self.missing[agent] = None
            if self.logs:
                log.warning("%s", self.warning(agent, '"tools": "auto" in responses_create_params'))
        return False

    def warning(self, agent: str, how: str = "--tools auto") -> str:
        """`get_weather and 2 more are never offered to the model: ...`."""
        names = [str(one.get("name")) for one in self.by_agent[agent]]
        more = f" and {len(names) - 1} more are" if len(names) > 1 else " is"
        return (
            f"{names[0]}{more} never offered to the model: rows of {agent} list no tools. "
            f"To offer those of its server: {how}"
        )

    def _check_known(self, agent: str) -> None:
        if agent in self.unread or agent not in self.by_agent:
            raise NoTools(self.unread.get(agent, f"the stack does not say which tools {agent} has"))


def lists_tools(row: Mapping[str, Any]) -> bool:
    if row[PARAMS].get(_TOOLS) is not None:
        return True
    defaults = row.get(DEFAULTS)
    return isinstance(defaults, dict) and defaults.get(_TOOLS) is not None


async def tools_of_stack(
    targets: Targets, settings: StackSettings | None = None, *, fill: bool = False, logs: bool = False
) -> RowTools:
    """As its router tells them."""

    async def ask(server: str) -> Reply | None:
        return await targets.ask_console(f"{SERVER_PREFIX}{quote(server, safe='')}/tools", seconds=TOOLS_SECONDS)

    return await read_tools(targets.agents, settings or await read_settings(targets), ask, fill=fill, logs=logs)


async def read_tools(
    agents: Collection[str], settings: StackSettings, ask: AskTools, *, fill: bool = False, logs: bool = False
) -> RowTools:
    """Asks each resources server once. With `fill` one that does not tell is an error."""
    servers = {agent: settings.resources_of(agent) for agent in agents}
    found: dict[str, Tools] = {"": ()}
    unread: dict[str, str] = {}

    async def read(name: str) -> None:
        reply = await ask(name)
        if reply is None or reply.status >= 500:
            unread[name] = f"{name} does not tell its tools: GET /tools {_outcome(reply)}"
        else:  # another status: a server without tools, or of another kind
            found[name] = _parse(reply.body) if reply.status == 200 else ()

    async with asyncio.TaskGroup() as group:
        for name in set(servers.values()) - {""}:
            group.create_task(read(name))
    if fill and not settings.instances:
        what = "the stack does not say which tools its agents have; an older gym started it"
        raise InfraError(what, "start it again: gym down, gym up NAMES")
    if fill and unread:
        raise InfraError("; ".join(unread.values()), "see gym ps and gym logs, or leave --tools out")
    mcp = {name for name in found if settings.fields(name).get("expose_tools_over_mcp")}
    known = settings.instances
    return RowTools(
        {agent: found[name] for agent, name in servers.items() if name in found and agent in known},
        {agent: unread[name] for agent, name in servers.items() if name in unread},
        frozenset(agent for agent, name in servers.items() if name in mcp),
        fill,
        logs=logs,
    )


def _outcome(reply: Reply | None) -> str:
    return "was not answered" if reply is None else f"was answered {reply.status}"


def _parse(body: bytes) -> Tools:
    try:
        found: Iterable[Any] = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ()
    return tuple(one for one in found if isinstance(one, dict) and one.get("name")) if isinstance(found, list) else ()
