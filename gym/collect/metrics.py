"""`X_aggregate_metrics.json`: what each agent makes of its rollouts, or the baseline of the contract made here.

One pass over the output. Agents are asked as long as their rollouts fit into one request; beyond that, columns of
eight bytes a number are all that is held.
"""

from __future__ import annotations

from array import array
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from gym.collect.replies import STAMP
from gym.collect.rows import AGENT_REF, PARAMS
from gym.wire.metrics import aggregate, describe_columns, numbers

MOST_ROWS = 50_000
MOST_BYTES = 32 << 20

Ask = Callable[[str, bytes], Awaitable[dict[str, Any] | None]]


class AgentRows:
    """The rollouts of one agent: whole but light ones while they are few, columns always."""

    def __init__(self) -> None:
        self.count = 0
        self._overflown = False
        self.columns: dict[str, array[float]] = {}
        self._light = bytearray()  # one buffer: single small objects between large ones would cost 4 KB each

    def add(self, row: dict[str, Any]) -> None:
        self.count += 1
        for name, value in numbers(row).items():
            self.columns.setdefault(name, array("d")).append(value)
        if self.fits:
            self._light += (b"," if self._light else b"") + orjson.dumps(lighten(row))
        if not self.fits:
            self._light = bytearray()
            self._overflown = True

    @property
    def fits(self) -> bool:
        return not self._overflown and self.count <= MOST_ROWS and len(self._light) <= MOST_BYTES

    def request(self) -> bytes:
        return b'{"verify_responses":[' + self._light + b"]}"

    def baseline(self) -> dict[str, Any]:
        if self.fits:
            return aggregate(orjson.loads(self.request())["verify_responses"])
        metrics = describe_columns(self.columns)
        keys = {name: value for name, value in metrics.items() if name.startswith("mean/")}
        # Groups of a task lie all over such a file; `gym profile` sorts them out.
        return {"group_level_metrics": [], "agent_metrics": metrics, "key_metrics": keys}


def lighten(row: dict[str, Any]) -> dict[str, Any]:
    """A row without what is heavy: of the response only its usage stays."""
    light = {name: value for name, value in row.items() if name not in (PARAMS, "response", STAMP)}
    response = row.get("response")
    if isinstance(response, dict):
        light["response"] = {"usage": response.get("usage")}
    return light


def group_by_agent(lines: Iterable[bytes]) -> dict[str, AgentRows]:
    agents: dict[str, AgentRows] = {}
    for line in lines:
        row = orjson.loads(line)
        agents.setdefault(row[AGENT_REF]["name"], AgentRows()).add(row)
    return agents


def read_output(path: Path, check: Callable[[], None]) -> dict[str, AgentRows]:
    """`check` is called at each line and raises when nobody waits any more."""
    with path.open("rb", buffering=4 << 20) as stream:
        return group_by_agent(_checked(stream, check))


def _checked(lines: Iterable[bytes], check: Callable[[], None]) -> Iterator[bytes]:
    for line in lines:
        check()
        yield line


async def aggregate_agents(agents: dict[str, AgentRows], ask: Ask) -> list[dict[str, Any]]:
    """One entry an agent, fields as in the contract; an agent that cannot say gets the baseline."""
    entries: list[dict[str, Any]] = []
    for name, rows in sorted(agents.items()):
        told = await ask(name, rows.request()) if rows.fits else None
        entries.append({AGENT_REF: {"name": name}, **(told or rows.baseline())})
    return entries
