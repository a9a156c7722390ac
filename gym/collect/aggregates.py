"""`X_aggregate_metrics.json`: what each agent makes of its rollouts, or the baseline of the contract made here.

Rollouts are added as they are written; the output of a resumed run is read once, at the end. Agents are asked as long
as their rollouts fit into one request; beyond that they are described here. Numbers are held in memory: with seven a
rollout 82 MB at 200,000 rollouts and 208 MB at a million (on disk it was 65 MB for both and 190 more lines).
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import orjson

from gym.collect.provenance import BREAK
from gym.collect.result_file import damaged_line
from gym.collect.run_replies import STAMP
from gym.collect.study.tries import NumberTable, extra_metrics
from gym.data.row_parsing import AGENT_REF, PARAMS
from gym.wire.deep_values import write_cut
from gym.wire.metrics import aggregate

MAX_ROWS = 50_000
MAX_BYTES = 32 << 20
_IN_MEMORY = 1 << 20

Ask = Callable[[str, bytes], Awaitable[dict[str, Any] | None]]


class AgentRows:
    """The rollouts of one agent: whole but light ones while they fit into a request, numbers always. `close` it."""

    def __init__(self) -> None:
        self.breaks = 0  # rollouts whose token ids do not add up
        self.table = NumberTable()
        self._size = 0
        self._light: IO[bytes] = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 (closed by `close`)

    def add(self, row: dict[str, Any]) -> None:
        fitted = self.fits
        self.breaks += BREAK in (row.get(STAMP) or ())
        self.table.add(row, row["reward"])
        if fitted:
            self._size += self._light.write((b"," if self._size else b"") + write_cut(lighten(row)))
        if fitted and not self.fits:
            self._light.truncate(0)

    @property
    def fits(self) -> bool:
        return len(self.table) <= MAX_ROWS and self._size <= MAX_BYTES

    def request(self) -> bytes:
        self._light.seek(0)
        return b'{"verify_responses":[' + self._light.read() + b"]}"

    def baseline(self) -> dict[str, Any]:
        if self.fits:
            return aggregate(orjson.loads(self.request())["verify_responses"])
        metrics = self.table.described()
        keys = {name: value for name, value in metrics.items() if name.startswith("mean/")}
        # A task's rollouts lie all over such a file; `gym profile` sorts them.
        return {"group_level_metrics": [], "agent_metrics": metrics, "key_metrics": keys}

    def close(self) -> None:
        self._light.close()


def lighten(row: dict[str, Any]) -> dict[str, Any]:
    """A row without what is heavy: of the response only its usage stays."""
    light = {name: value for name, value in row.items() if name not in (PARAMS, "response", STAMP)}
    response = row.get("response")
    if isinstance(response, dict):
        light["response"] = {"usage": response.get("usage")}
    return light


class RowsSoFar:
    """The rollouts of a run by agent, while it lasts. Not `complete` where its output has others, or a disk is full."""

    def __init__(self, *, complete: bool) -> None:
        self.complete = complete
        self.agents: dict[str, AgentRows] = {}

    def add(self, fields: dict[str, Any]) -> None:
        try:
            add_row(self.agents, fields)
        except OSError:
            self.close()

    def close(self) -> None:
        self.complete = False
        _close(self.agents)


def add_row(agents: dict[str, AgentRows], row: dict[str, Any]) -> None:
    name = row[AGENT_REF]["name"]
    if name not in agents:
        agents[name] = AgentRows()
    agents[name].add(row)


def read_output(path: Path, check: Callable[[], None]) -> dict[str, AgentRows]:
    """`check` is called at each line; it raises when the run was stopped."""
    agents: dict[str, AgentRows] = {}
    with ExitStack() as unfinished, path.open("rb", buffering=4 << 20) as stream:
        unfinished.callback(_close, agents)
        for number, line in enumerate(stream, 1):
            check()
            row = _read_rollout(line)
            if row is None:
                raise damaged_line(path, number)
            add_row(agents, row)
        unfinished.pop_all()
    return agents


def _read_rollout(line: bytes) -> dict[str, Any] | None:
    """None for a line that was damaged since; a resume has looked at its end only."""
    try:
        row: dict[str, Any] = orjson.loads(line)
        whole = isinstance(row[AGENT_REF]["name"], str) and isinstance(row["reward"], (int, float))
    except (ValueError, KeyError, TypeError):
        return None
    return row if whole else None


async def aggregate_agents(agents: dict[str, AgentRows], ask: Ask) -> list[dict[str, Any]]:
    """One entry an agent, fields as in the contract; an agent that cannot say gets the baseline. Closes the rows."""
    entries: list[dict[str, Any]] = []
    try:
        for name, rows in sorted(agents.items()):
            entry = await ask(name, rows.request()) if rows.fits else None
            if entry is None:
                entry = await asyncio.to_thread(rows.baseline)
            if isinstance(own := entry["agent_metrics"], dict):
                extra = await asyncio.to_thread(extra_metrics, rows.table)
                broken = {"tokens_breaks": rows.breaks} if rows.breaks else {}
                entry["agent_metrics"] = {**broken, **extra, **own}  # the server's own metrics win
            entries.append({AGENT_REF: {"name": name}, **entry})
    finally:
        _close(agents)
    return entries


def _close(agents: Mapping[str, AgentRows]) -> None:
    for rows in agents.values():
        rows.close()
