"""Which server verifies an agent's rows: as a stack says it, or found by the agent's name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gym.config import CatalogEntry, Instance, StackConfig, known_as
from gym.config.instance_keys import FACTS
from gym.data.row_workers import RowServer
from gym.wire.server_types import AGENTS, RESOURCES

NOT_SAID = ("${", "???")  # filled in by what is not here, and no row's business
FindPython = Callable[[CatalogEntry], Path]
LoadStack = Callable[[str], StackConfig]


@dataclass(frozen=True)
class RowServers:
    """`notes` says of which agents' rows only the contract could be checked, and why: one line each."""

    find_python: FindPython
    stack: StackConfig | None = None  # what was named; without it servers are found by the names of agents
    entries: tuple[CatalogEntry, ...] = ()
    load: LoadStack | None = None
    notes: list[str] = field(default_factory=list)

    def find(self, agent: str) -> RowServer | None:
        found = self._find(agent)
        if isinstance(found, RowServer):
            return found
        self.notes.append(f"{found}: these rows were checked against the contract alone")
        return None

    def _find(self, agent: str) -> RowServer | str:
        """The server, or why there is none."""
        if not agent:
            return "rows name no agent"
        stack = self.stack or self._load(agent)
        instance = stack.instance(known_as(agent, agent_names(stack)) or "") if stack is not None else None
        if stack is None or instance is None:
            return f"no server here has an agent {agent!r}"
        server = resources_of(stack, instance)
        if server is None or server.directory is None:
            return f"{agent} has no resources server whose code is here"
        python = self.find_python(_entry(server))
        fields = known_fields(server.fields)
        folder = server.directory.absolute()
        return RowServer(server.name, folder, python, fields, server.entrypoint, server.foreign)

    def _load(self, agent: str) -> StackConfig | None:
        name = server_name(agent, self.entries)
        return self.load(name) if name and self.load is not None else None


def agent_names(stack: StackConfig) -> tuple[str, ...]:
    return tuple(one.name for one in stack.instances if one.type == AGENTS)


def resources_of(stack: StackConfig, agent: Instance) -> Instance | None:
    names = (one.name for one in agent.references if one.type == RESOURCES)
    return next((found for name in names if (found := stack.instance(name)) is not None), None)


def agent_for(stack: StackConfig, lister: Instance) -> str:
    """The agent of an instance's data sets: itself, or the one agent that uses it."""
    if lister.type == AGENTS:
        return lister.name
    users = [
        one.name
        for one in stack.instances
        if one.type == AGENTS and any(ref.name == lister.name for ref in one.references)
    ]
    return users[0] if len(users) == 1 else ""


def server_name(agent: str, entries: Iterable[CatalogEntry]) -> str:
    """`mcqa` of `mcqa_simple_agent`: the longest name of a server that the agent's begins with."""
    names = [name for one in entries if one.type == RESOURCES for name in (one.name, *one.aliases)]
    return max((name for name in names if agent == name or agent.startswith(f"{name}_")), key=len, default="")


def known_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Without the facts of its container, and without what is still to be filled in."""
    return {key: value for key, value in fields.items() if key not in FACTS and not _is_open(value)}


def _is_open(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_is_open(one) for one in value.values())
    if isinstance(value, list):
        return any(_is_open(one) for one in value)
    return isinstance(value, str) and any(sign in value for sign in NOT_SAID)


def _entry(instance: Instance) -> CatalogEntry:
    assert instance.directory is not None
    return CatalogEntry(
        name=instance.name,
        type=instance.type,
        implementation=instance.implementation,
        directory=instance.directory,
    )
